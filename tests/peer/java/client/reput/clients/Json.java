package reput.clients;

import java.util.Collection;
import java.util.Map;

/** Writes maps, collections, texts and numbers as JSON. */
public final class Json {
    private Json() {
    }

    public static String of(Object value) {
        StringBuilder text = new StringBuilder();
        write(value, text);
        return text.toString();
    }

    private static void write(Object value, StringBuilder text) {
        if (value == null || value instanceof Number || value instanceof Boolean) {
            text.append(value);
        } else if (value instanceof Map<?, ?> map) {
            String before = "{";
            for (Map.Entry<?, ?> entry : map.entrySet()) {
                text.append(before);
                write(entry.getKey().toString(), text);
                text.append(':');
                write(entry.getValue(), text);
                before = ",";
            }
            text.append(map.isEmpty() ? "{}" : "}");
        } else if (value instanceof Collection<?> values) {
            String before = "[";
            for (Object one : values) {
                text.append(before);
                write(one, text);
                before = ",";
            }
            text.append(values.isEmpty() ? "[]" : "]");
        } else {
            quote(value.toString(), text);
        }
    }

    private static void quote(String value, StringBuilder text) {
        text.append('"');
        for (char one : value.toCharArray()) {
            if (one == '"' || one == '\\') {
                text.append('\\').append(one);
            } else if (one < ' ') {
                text.append(String.format("\\u%04x", (int) one));
            } else {
                text.append(one);
            }
        }
        text.append('"');
    }
}
