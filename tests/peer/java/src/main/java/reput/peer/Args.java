package reput.peer;

import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;

/** A command line: positions in order, and {@code --name value} options, each of which may be repeated. */
final class Args {
    private final List<String> positions = new ArrayList<>();
    private final Map<String, List<String>> options = new HashMap<>();

    Args(String[] words) {
        for (int i = 0; i < words.length; i++) {
            if (!words[i].startsWith("--")) {
                positions.add(words[i]);
            } else if (i + 1 < words.length) {
                options.computeIfAbsent(words[i].substring(2), name -> new ArrayList<>()).add(words[++i]);
            } else {
                throw new IllegalArgumentException(words[i] + " needs a value");
            }
        }
    }

    String position(int index, String name) {
        if (index >= positions.size()) {
            throw new IllegalArgumentException("missing argument: " + name);
        }
        return positions.get(index);
    }

    List<String> all(String option) {
        return options.getOrDefault(option, List.of());
    }

    int number(String option, int fallback) {
        List<String> given = all(option);
        return given.isEmpty() ? fallback : Integer.parseInt(given.get(given.size() - 1));
    }
}
