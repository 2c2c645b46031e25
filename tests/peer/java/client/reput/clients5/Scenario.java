package reput.clients5;

import java.util.LinkedHashMap;
import java.util.Map;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.TimeUnit;
import reput.clients.Outcome;

/**
 * What RocketMQ's clients of version 5 do with a gRPC port, scenario by scenario; all run at the same time. Each prints
 * one line: {"scenario": name, "outcome": what its clients saw}.
 *
 * Usage: ADDRESS NAME... ; topics are there before, with the names of the scenarios.
 */
public final class Scenario {
    @FunctionalInterface
    interface Run {
        Map<String, Object> with(Clients clients) throws Exception;
    }

    private static final Map<String, Run> RUNS = new LinkedHashMap<>();

    static {
        RUNS.put("normal", Sending::normal);
        RUNS.put("refused", Sending::refused);
        RUNS.put("fifo", Sending::fifo);
        RUNS.put("delay", Later::delay);
        RUNS.put("recall", Later::recall);
        RUNS.put("transaction", Later::transaction);
        RUNS.put("leases", Leasing::leases);
        RUNS.put("dead", Leasing::dead);
        RUNS.put("push", Pushing::push);
        RUNS.put("ordered", Pushing::ordered);
        RUNS.put("killed", Pushing::killed);
        RUNS.put("lite", Lite::lite);
        RUNS.put("exclusive", Lite::exclusive);
    }

    private Scenario() {
    }

    public static void main(String[] args) throws Exception {
        ExecutorService threads = Executors.newCachedThreadPool();
        for (int at = 1; at < args.length; at++) {
            String name = args[at];
            Clients clients = new Clients(args[0]);
            threads.submit(() -> Outcome.print(name, () -> RUNS.get(name).with(clients)));
        }
        threads.shutdown();
        threads.awaitTermination(5, TimeUnit.MINUTES);
        System.exit(0);
    }
}
