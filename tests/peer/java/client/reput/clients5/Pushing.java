package reput.clients5;

import java.util.ArrayList;
import java.util.Collections;
import java.util.List;
import java.util.Map;
import java.util.Queue;
import java.util.Set;
import java.util.TreeMap;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.ConcurrentLinkedQueue;
import org.apache.rocketmq.client.apis.consumer.ConsumeResult;
import org.apache.rocketmq.client.apis.consumer.FilterExpression;
import org.apache.rocketmq.client.apis.consumer.FilterExpressionType;
import org.apache.rocketmq.client.apis.consumer.MessageListener;
import org.apache.rocketmq.client.apis.consumer.PushConsumer;
import org.apache.rocketmq.client.apis.producer.Producer;

/** Push consumers. */
public final class Pushing {
    /** A killed client is given up when it was silent for some time. */
    private static final long GONE_LIMIT_MS = 240_000;

    private Pushing() {
    }

    private static PushConsumer pusher(Clients clients, String topic, String tags, MessageListener listener) throws Exception {
        return clients.provider.newPushConsumerBuilder()
            .setClientConfiguration(clients.configuration)
            .setConsumerGroup(topic + "-readers")
            .setSubscriptionExpressions(Map.of(topic, new FilterExpression(tags, FilterExpressionType.TAG)))
            .setConsumptionThreadCount(4)
            .setMessageListener(listener)
            .build();
    }

    private static void send(Clients clients, String topic, int count, boolean hasGroup) throws Exception {
        Producer producer = clients.producer(topic);
        for (int number = 0; number < count; number++) {
            var message = clients.message(topic, topic + number).setTag(number % 4 == 3 ? "B" : "A").setKeys("k" + number);
            producer.send((hasGroup ? message.setMessageGroup("one") : message).build());
        }
        producer.close();
    }

    /** Two members of a group take all messages of a tag; those that fail once come again, with one try more. */
    static Map<String, Object> push(Clients clients) throws Exception {
        Queue<String> got = new ConcurrentLinkedQueue<>();
        Set<String> done = ConcurrentHashMap.newKeySet();
        List<PushConsumer> consumers = new ArrayList<>();
        for (int member = 0; member < 2; member++) {
            consumers.add(pusher(clients, "push", "A", message -> {
                got.add(Clients.seen(message));
                if (message.getDeliveryAttempt() == 1 && Clients.body(message).endsWith("5")) {
                    return ConsumeResult.FAILURE;
                }
                done.add(Clients.body(message));
                return ConsumeResult.SUCCESS;
            }));
        }
        send(clients, "push", 40, false);
        Map<String, Object> outcome = new TreeMap<>();
        outcome.put("done", Clients.await(() -> done.size() >= 30));
        for (PushConsumer consumer : consumers) {
            consumer.close();
        }
        List<String> sorted = new ArrayList<>(got);
        Collections.sort(sorted);
        outcome.put("got", sorted);
        return outcome;
    }

    /** A group in order gets the messages of a message group in their order; one that fails comes again before the next. */
    static Map<String, Object> ordered(Clients clients) throws Exception {
        Queue<String> got = new ConcurrentLinkedQueue<>();
        Set<String> done = ConcurrentHashMap.newKeySet();
        PushConsumer consumer = pusher(clients, "ordered", "*", message -> {
            got.add(Clients.body(message) + " " + message.getDeliveryAttempt());
            if (message.getDeliveryAttempt() == 1 && Clients.body(message).endsWith("2")) {
                return ConsumeResult.FAILURE;
            }
            done.add(Clients.body(message));
            return ConsumeResult.SUCCESS;
        });
        send(clients, "ordered", 8, true);
        Map<String, Object> outcome = new TreeMap<>();
        outcome.put("done", Clients.await(() -> done.size() == 8));
        consumer.close();
        outcome.put("got", new ArrayList<>(got));
        return outcome;
    }

    /** Takes messages, and never ends with them, until its process is killed: {@link #killed}. Usage: ADDRESS TOPIC. */
    public static void main(String[] args) throws Exception {
        pusher(new Clients(args[0]), args[1], "*", message -> {
            System.out.println(Clients.body(message));
            try {
                Thread.sleep(Long.MAX_VALUE);
            } catch (InterruptedException ended) {
                Thread.currentThread().interrupt();
            }
            return ConsumeResult.FAILURE;
        });
        Thread.sleep(Long.MAX_VALUE);
    }

    /** A member that is killed while it has messages: another one gets them all, once. */
    static Map<String, Object> killed(Clients clients) throws Exception {
        String address = clients.configuration.getEndpoints();
        List<String> command = new ArrayList<>(List.of("java", "-Xmx128m", "-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC"));
        command.addAll(List.of("-Duser.home=" + System.getProperty("user.home"), "-cp", System.getProperty("java.class.path")));
        command.addAll(List.of(Pushing.class.getName(), address, "killed"));
        Process process = new ProcessBuilder(command).redirectError(ProcessBuilder.Redirect.DISCARD).start();
        Set<String> hung = ConcurrentHashMap.newKeySet();
        new Thread(() -> process.inputReader().lines().forEach(hung::add)).start();
        send(clients, "killed", 4, false);
        Map<String, Object> outcome = new TreeMap<>();
        outcome.put("all hang", Clients.await(() -> hung.size() == 4));
        process.destroyForcibly().waitFor();
        Queue<String> taken = new ConcurrentLinkedQueue<>();
        PushConsumer living = pusher(clients, "killed", "*", message -> {
            taken.add(Clients.body(message) + " " + message.getDeliveryAttempt());
            return ConsumeResult.SUCCESS;
        });
        outcome.put("all taken", Clients.await(() -> taken.size() >= 4, GONE_LIMIT_MS));
        Thread.sleep(Clients.WAIT.toMillis());
        living.close();
        outcome.put("taken", taken.stream().sorted().toList());
        return outcome;
    }
}
