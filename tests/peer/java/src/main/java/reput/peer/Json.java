package reput.peer;

import java.util.Iterator;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;

/** Compact ASCII JSON with keys in the order given, so that equal answers are equal lines. */
final class Json {
    private Json() {
    }

    /** An object from key, value, key, value ... */
    static Map<String, Object> object(Object... pairs) {
        Map<String, Object> object = new LinkedHashMap<>();
        for (int i = 0; i < pairs.length; i += 2) {
            object.put((String) pairs[i], pairs[i + 1]);
        }
        return object;
    }

    static String text(Object value) {
        StringBuilder out = new StringBuilder();
        write(out, value);
        return out.toString();
    }

    private static void write(StringBuilder out, Object value) {
        if (value == null || value instanceof Number || value instanceof Boolean) {
            out.append(value);
        } else if (value instanceof List) {
            writeList(out, (List<?>) value);
        } else if (value instanceof Map) {
            writeMap(out, (Map<?, ?>) value);
        } else {
            writeString(out, value.toString());
        }
    }

    private static void writeList(StringBuilder out, List<?> list) {
        out.append('[');
        for (Iterator<?> it = list.iterator(); it.hasNext(); ) {
            write(out, it.next());
            out.append(it.hasNext() ? "," : "");
        }
        out.append(']');
    }

    private static void writeMap(StringBuilder out, Map<?, ?> map) {
        out.append('{');
        for (Iterator<? extends Map.Entry<?, ?>> it = map.entrySet().iterator(); it.hasNext(); ) {
            Map.Entry<?, ?> entry = it.next();
            writeString(out, entry.getKey().toString());
            out.append(':');
            write(out, entry.getValue());
            out.append(it.hasNext() ? "," : "");
        }
        out.append('}');
    }

    private static void writeString(StringBuilder out, String text) {
        out.append('"');
        for (int i = 0; i < text.length(); i++) {
            char c = text.charAt(i);
            if (c == '"' || c == '\\') {
                out.append('\\').append(c);
            } else if (c < 0x20 || c > 0x7e) {
                out.append(String.format("\\u%04x", (int) c));
            } else {
                out.append(c);
            }
        }
        out.append('"');
    }
}
