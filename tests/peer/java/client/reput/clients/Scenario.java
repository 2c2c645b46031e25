package reput.clients;

import java.util.LinkedHashMap;
import java.util.Map;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.TimeUnit;

/**
 * What RocketMQ's clients do with a broker, scenario by scenario; all run at the same time. Each prints one line:
 * {"scenario": name, "outcome": what its clients saw}. Then it runs the commands of mqadmin that stdin has, see Admin.
 *
 * Usage: ADDRESS PREFIX NAME... ; topics and groups begin with the prefix. Topics are there before.
 */
public final class Scenario {
    @FunctionalInterface
    interface Run {
        Map<String, Object> with(Clients clients) throws Exception;
    }

    private static final Map<String, Run> RUNS = new LinkedHashMap<>();

    static {
        RUNS.put("send", Sending::send);
        RUNS.put("refused", Sending::refused);
        RUNS.put("push", Pushing::push);
        RUNS.put("tags", Pushing::tags);
        RUNS.put("sql", Pushing::sql);
        RUNS.put("broadcast", Pushing::broadcast);
        RUNS.put("ordered", Ordered::ordered);
        RUNS.put("ordered-dead", Ordered::deadLetters);
        RUNS.put("retry", Retrying::retry);
        RUNS.put("dead", Retrying::deadLetters);
        RUNS.put("pop", Popping::pop);
        RUNS.put("pull", Pulling::pull);
        RUNS.put("assign", Pulling::assign);
        RUNS.put("ask", Pulling::ask);
        RUNS.put("rebalance", Rebalancing::rebalance);
        RUNS.put("delay", Later::delay);
        RUNS.put("timer", Later::timer);
        RUNS.put("recall", Recalling::recall);
        RUNS.put("transaction", Later::transaction);
    }

    private Scenario() {
    }

    public static void main(String[] args) throws Exception {
        ExecutorService threads = Executors.newCachedThreadPool();
        for (int at = 2; at < args.length; at++) {
            String name = args[at];
            Clients clients = new Clients(args[0], args[1]);
            threads.submit(() -> Outcome.print(name, () -> RUNS.get(name).with(clients)));
        }
        threads.shutdown();
        threads.awaitTermination(5, TimeUnit.MINUTES);
        Admin.run(new Clients(args[0], args[1]));
        System.exit(0);
    }
}
