package reput.clients5;

import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;
import org.apache.rocketmq.client.apis.consumer.FilterExpression;
import org.apache.rocketmq.client.apis.consumer.FilterExpressionType;
import org.apache.rocketmq.client.apis.consumer.SimpleConsumer;
import org.apache.rocketmq.client.apis.message.Message;
import org.apache.rocketmq.client.apis.message.MessageView;
import org.apache.rocketmq.client.apis.producer.Producer;

/** Messages that are sent, and those that are refused. */
final class Sending {
    private Sending() {
    }

    /** Messages with all that they can have, large ones and asynchronous ones; filters by tag and SQL92 take theirs. */
    static Map<String, Object> normal(Clients clients) throws Exception {
        Producer producer = clients.producer("normal");
        SimpleConsumer even = clients.consumer("normal", "even");
        SimpleConsumer high = clients.consumer("normal", "normal-sql", new FilterExpression("number > 7", FilterExpressionType.SQL92));
        SimpleConsumer all = clients.consumer("normal", "normal-all", FilterExpression.SUB_ALL);
        for (int number = 0; number < 12; number++) {
            Message message = clients.message("normal", number == 11 ? "x".repeat(100_000) : "n" + number)
                .setTag(number % 2 == 0 ? "even" : "odd")
                .setKeys("k" + number, "all")
                .addProperty("number", Integer.toString(number))
                .build();
            if (number % 3 == 0) {
                producer.sendAsync(message).get();
            } else {
                producer.send(message);
            }
        }
        producer.send(clients.message("normal", "bare").build());
        Map<String, Object> outcome = new TreeMap<>();
        outcome.put("even", Clients.sorted(Clients.take(even, 6)));
        outcome.put("high", Clients.sorted(Clients.take(high, 4)));
        outcome.put("all", Clients.sorted(Clients.take(all, 13)));
        outcome.put("then", Clients.then(all));
        for (AutoCloseable one : List.of(even, high, all, producer)) {
            one.close();
        }
        return outcome;
    }

    private static String tried(Producer producer, Message message) {
        try {
            producer.send(message);
            return "sent";
        } catch (Throwable error) {
            return error.getClass().getSimpleName();
        }
    }

    /** What the server or the client refuses, by the class of the error. */
    static Map<String, Object> refused(Clients clients) throws Exception {
        Producer producer = clients.producer("refused");
        Map<String, Object> outcome = new TreeMap<>();
        outcome.put("a group", tried(producer, clients.message("refused", "x").setMessageGroup("g").build()));
        outcome.put("a time", tried(producer, clients.message("refused", "x").setDeliveryTimestamp(System.currentTimeMillis() + 5_000).build()));
        outcome.put("no such topic", tried(producer, clients.message("unheard", "x").build()));
        outcome.put("too large", tried(producer, clients.message("refused", "x".repeat((4 << 20) + 1)).build()));
        outcome.put("a property of the system", tried(producer, clients.message("refused", "x").addProperty("UNIQ_KEY", "x").build()));
        SimpleConsumer consumer = clients.consumer("refused", "*");
        try {
            consumer.receive(16, Duration.ofSeconds(9));
            outcome.put("a short lease", "given");
        } catch (Throwable error) {
            outcome.put("a short lease", error.getClass().getSimpleName());
        }
        try {
            consumer.receive(33, Clients.LEASE);
            outcome.put("a large batch", "given");
        } catch (Throwable error) {
            outcome.put("a large batch", error.getClass().getSimpleName());
        }
        consumer.close();
        producer.close();
        return outcome;
    }

    /** Messages of a group come in their order. */
    static Map<String, Object> fifo(Clients clients) throws Exception {
        Producer producer = clients.producer("fifo");
        for (int number = 0; number < 12; number++) {
            String group = "g" + number % 3;
            producer.send(clients.message("fifo", group + "-" + number).setMessageGroup(group).build());
        }
        SimpleConsumer consumer = clients.consumer("fifo", "*");
        Map<String, List<String>> groups = new TreeMap<>();
        for (MessageView one : Clients.take(consumer, 12)) {
            groups.computeIfAbsent(one.getMessageGroup().orElse(""), name -> new ArrayList<>()).add(Clients.body(one));
        }
        Map<String, Object> outcome = new TreeMap<>(groups);
        consumer.close();
        producer.close();
        return outcome;
    }
}
