package reput.clients5;

import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;
import org.apache.rocketmq.client.apis.consumer.SimpleConsumer;
import org.apache.rocketmq.client.apis.message.MessageView;
import org.apache.rocketmq.client.apis.producer.Producer;

/** Messages that are not acknowledged. */
final class Leasing {
    private Leasing() {
    }

    private static MessageView one(SimpleConsumer consumer) throws Exception {
        long end = System.currentTimeMillis() + Clients.LIMIT_MS;
        while (System.currentTimeMillis() < end) {
            for (MessageView found : consumer.receive(1, Clients.LEASE)) {
                return found;
            }
        }
        throw new IllegalStateException("no message");
    }

    private static String ended(SimpleConsumer consumer, MessageView message) {
        try {
            consumer.ack(message);
            return "acknowledged";
        } catch (Throwable error) {
            return error.getClass().getSimpleName();
        }
    }

    /** A message comes again when its lease ends, or sooner when its invisible time is changed; what is acked does not. */
    static Map<String, Object> leases(Clients clients) throws Exception {
        Producer producer = clients.producer("leases");
        SimpleConsumer consumer = clients.consumer("leases", "*");
        Map<String, Object> outcome = new TreeMap<>();
        List<String> got = new ArrayList<>();
        producer.send(clients.message("leases", "left").setKeys("k").addProperty("a", "b").build());
        long begin = System.currentTimeMillis();
        got.add(Clients.seen(one(consumer)));
        MessageView again = one(consumer);
        outcome.put("came early", System.currentTimeMillis() - begin < Clients.LEASE.toMillis() - 1000);
        got.add(Clients.seen(again));
        outcome.put("the second", ended(consumer, again));
        producer.send(clients.message("leases", "changed").build());
        MessageView changed = one(consumer);
        got.add(Clients.seen(changed));
        begin = System.currentTimeMillis();
        consumer.changeInvisibleDuration(changed, Duration.ofSeconds(2));
        MessageView soon = one(consumer);
        outcome.put("came late", System.currentTimeMillis() - begin > Clients.LEASE.toMillis());
        got.add(Clients.seen(soon));
        outcome.put("after a change", ended(consumer, soon));
        outcome.put("got", got);
        outcome.put("then", Clients.then(consumer));
        consumer.close();
        producer.close();
        return outcome;
    }

    /** A message that its group gets too often becomes a dead letter. */
    static Map<String, Object> dead(Clients clients) throws Exception {
        Producer producer = clients.producer("dead");
        SimpleConsumer consumer = clients.consumer("dead", "*");
        producer.send(clients.message("dead", "bad").build());
        List<String> got = new ArrayList<>();
        for (int attempt = 0; attempt < 2; attempt++) {
            MessageView found = one(consumer);
            got.add(Clients.seen(found));
            consumer.changeInvisibleDuration(found, Duration.ofSeconds(1));
        }
        Map<String, Object> outcome = new TreeMap<>();
        outcome.put("got", got);
        outcome.put("then", Clients.then(consumer));
        consumer.close();
        producer.close();
        return outcome;
    }
}
