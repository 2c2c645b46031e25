package reput.clients;

import java.util.Arrays;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;

/**
 * Prints the line of a measurement: {"name": ..., "count": messages, "rate": messages a second, "p50_us": ..., "p99_us":
 * ...}.
 */
public final class Measured {
    private Measured() {
    }

    /** `seconds`: 0 for a measurement without a rate; `nanos`: how long each message took, if that was measured. */
    public static void print(String name, long count, double seconds, List<Long> nanos) {
        long[] sorted = nanos.stream().mapToLong(Long::longValue).toArray();
        Arrays.sort(sorted);
        Map<String, Object> line = new LinkedHashMap<>();
        line.put("name", name);
        line.put("count", count);
        line.put("rate", seconds > 0 ? Math.round(count / seconds) : 0);
        if (sorted.length > 0) {
            line.put("p50_us", sorted[sorted.length / 2] / 1000);
            line.put("p99_us", sorted[(int) (sorted.length * 0.99)] / 1000);
        }
        System.out.println(Json.of(line));
    }
}
