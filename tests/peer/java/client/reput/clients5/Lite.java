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
import org.apache.rocketmq.client.apis.ClientException;
import org.apache.rocketmq.client.apis.consumer.ConsumeResult;
import org.apache.rocketmq.client.apis.consumer.LitePushConsumer;
import org.apache.rocketmq.client.apis.consumer.MessageListener;
import org.apache.rocketmq.client.apis.consumer.OffsetOption;
import org.apache.rocketmq.client.apis.producer.Producer;

/** Consumers of lite topics. */
final class Lite {
    /** This client does not shorten the lease of what it fails with, 60 s. */
    private static final long FAILED_LIMIT_MS = 150_000;

    private Lite() {
    }

    private static LitePushConsumer consumer(Clients clients, String topic, MessageListener listener) throws Exception {
        return clients.provider.newLitePushConsumerBuilder()
            .setClientConfiguration(clients.configuration)
            .setConsumerGroup(topic + "-readers")
            .bindTopic(topic)
            .setConsumptionThreadCount(4)
            .setMessageListener(listener)
            .build();
    }

    private static void send(Clients clients, Producer producer, String topic, String lite, String... bodies) throws Exception {
        for (String body : bodies) {
            producer.send(clients.message(topic, body).setLiteTopic(lite).setTag("t").setKeys(lite).build());
        }
    }

    private static List<String> sorted(Queue<String> seen) {
        List<String> sorted = new ArrayList<>(seen);
        Collections.sort(sorted);
        return sorted;
    }

    private static String error(Clients clients, Producer producer, String topic, String lite) throws Exception {
        try {
            send(clients, producer, topic, lite, "never");
            return "";
        } catch (ClientException | IllegalArgumentException refused) {
            return refused.getClass().getSimpleName();
        }
    }

    /** A client gets the messages of the lite topics that it subscribes to, each lite topic in its order, and no others. */
    static Map<String, Object> lite(Clients clients) throws Exception {
        Producer producer = clients.producer("lite");
        Queue<String> got = new ConcurrentLinkedQueue<>();
        Set<String> done = ConcurrentHashMap.newKeySet();
        LitePushConsumer consumer = consumer(clients, "lite", message -> {
            got.add(Clients.seen(message));
            if (message.getDeliveryAttempt() == 1 && Clients.body(message).equals("f0")) {
                return ConsumeResult.FAILURE;
            }
            done.add(Clients.body(message));
            return ConsumeResult.SUCCESS;
        });
        consumer.subscribeLite("a");
        consumer.subscribeLite("b");
        consumer.subscribeLite("f");
        send(clients, producer, "lite", "a", "a0", "a1", "a2", "a3");
        send(clients, producer, "lite", "b", "b0", "b1", "b2", "b3");
        send(clients, producer, "lite", "f", "f0");
        send(clients, producer, "lite", "c", "c0", "c1");
        Map<String, Object> outcome = new TreeMap<>();
        outcome.put("done", Clients.await(() -> done.size() == 9, FAILED_LIMIT_MS));
        outcome.put("got", sorted(got));
        consumer.unsubscribeLite("b");
        send(clients, producer, "lite", "b", "b4");
        consumer.subscribeLite("c", OffsetOption.MIN_OFFSET);
        outcome.put("from the first", Clients.await(() -> done.containsAll(Set.of("c0", "c1"))));
        consumer.subscribeLite("b");
        outcome.put("goes on", Clients.await(() -> done.contains("b4")));
        consumer.subscribeLite("a", OffsetOption.MAX_OFFSET);
        outcome.put("subscribed", consumer.getLiteTopicSet().stream().sorted().toList());
        outcome.put("wrong name", error(clients, producer, "lite", "a b"));
        outcome.put("no name", error(clients, producer, "lite", "x".repeat(65)));
        Thread.sleep(Clients.WAIT.toMillis());
        outcome.put("all", sorted(got));
        consumer.close();
        producer.close();
        return outcome;
    }

    /** In an exclusive group the last client takes a lite topic over, from its first message; the one before gets a notice. */
    static Map<String, Object> exclusive(Clients clients) throws Exception {
        Producer producer = clients.producer("exclusive");
        Queue<String> first = new ConcurrentLinkedQueue<>();
        Queue<String> second = new ConcurrentLinkedQueue<>();
        LitePushConsumer one = consumer(clients, "exclusive", message -> {
            first.add(Clients.body(message));
            return ConsumeResult.SUCCESS;
        });
        one.subscribeLite("seat");
        send(clients, producer, "exclusive", "seat", "before");
        Map<String, Object> outcome = new TreeMap<>();
        outcome.put("first has it", Clients.await(() -> first.size() == 1));
        LitePushConsumer other = consumer(clients, "exclusive", message -> {
            second.add(Clients.body(message));
            return ConsumeResult.SUCCESS;
        });
        other.subscribeLite("seat");
        outcome.put("gets notice", Clients.await(() -> one.getLiteTopicSet().isEmpty()));
        send(clients, producer, "exclusive", "seat", "after");
        outcome.put("second has all", Clients.await(() -> second.size() == 2));
        Thread.sleep(Clients.WAIT.toMillis());
        outcome.put("first", sorted(first));
        outcome.put("second", sorted(second));
        one.close();
        other.close();
        producer.close();
        return outcome;
    }
}
