package reput.clients;

import java.io.PrintWriter;
import java.io.StringWriter;
import java.util.LinkedHashMap;
import java.util.Map;
import java.util.concurrent.Callable;

/** The line that a scenario prints: {"scenario": name, "outcome": what its clients saw, "ms": its time}. */
public final class Outcome {
    private Outcome() {
    }

    /** Runs a scenario, and prints its line; one that fails has its stack trace as `error`. */
    public static void print(String name, Callable<Map<String, Object>> scenario) {
        Map<String, Object> line = new LinkedHashMap<>();
        line.put("scenario", name);
        long begin = System.currentTimeMillis();
        try {
            line.put("outcome", scenario.call());
        } catch (Throwable error) {
            StringWriter text = new StringWriter();
            error.printStackTrace(new PrintWriter(text));
            line.put("error", text.toString());
        }
        line.put("ms", System.currentTimeMillis() - begin);
        synchronized (System.out) {
            System.out.println(Json.of(line));
        }
    }
}
