package reput.clients;

import java.util.ArrayList;
import java.util.Collections;
import java.util.List;
import java.util.Map;
import java.util.Queue;
import java.util.TreeMap;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.ConcurrentLinkedQueue;
import java.util.concurrent.atomic.AtomicInteger;
import org.apache.rocketmq.client.consumer.DefaultMQPushConsumer;
import org.apache.rocketmq.client.consumer.listener.ConsumeOrderlyStatus;
import org.apache.rocketmq.client.consumer.listener.MessageListenerOrderly;
import org.apache.rocketmq.client.producer.DefaultMQProducer;
import org.apache.rocketmq.common.message.MessageExt;

/** Producers that choose a queue by key, and consumers that lock their queues. */
final class Ordered {
    private Ordered() {
    }

    /** Five keys, twenty messages each; one message of each key fails at first, and holds up those after it. */
    static Map<String, Object> ordered(Clients clients) throws Exception {
        DefaultMQProducer producer = clients.producer("orderers");
        for (int number = 0; number < 100; number++) {
            producer.send(clients.message("ordered", "key" + number % 5, number / 5), (queues, message, key) -> queues.get((int) key % queues.size()), number % 5);
        }
        producer.shutdown();
        DefaultMQPushConsumer consumer = clients.pusher("ordered-group");
        consumer.setSuspendCurrentQueueTimeMillis(100);
        consumer.setConsumeMessageBatchMaxSize(1);
        consumer.subscribe(clients.name("ordered"), "*");
        Map<String, List<String>> got = new ConcurrentHashMap<>();
        Map<String, Integer> queues = new ConcurrentHashMap<>();
        AtomicInteger count = new AtomicInteger();
        consumer.registerMessageListener((MessageListenerOrderly) (messages, context) -> {
            MessageExt one = messages.get(0);
            got.computeIfAbsent(one.getTags(), key -> Collections.synchronizedList(new ArrayList<>())).add(Clients.body(one) + " " + one.getReconsumeTimes());
            queues.put(one.getTags(), one.getQueueId());
            if (one.getReconsumeTimes() == 0 && Clients.body(one).endsWith("-7")) {
                return ConsumeOrderlyStatus.SUSPEND_CURRENT_QUEUE_A_MOMENT;
            }
            count.incrementAndGet();
            return ConsumeOrderlyStatus.SUCCESS;
        });
        consumer.start();
        Clients.await(() -> count.get() >= 100);
        consumer.shutdown();
        Map<String, Object> outcome = new TreeMap<>(got);
        outcome.put("queues", new TreeMap<>(queues));
        return outcome;
    }

    /** A message that never succeeds becomes a dead letter after one more try; the next one goes on. */
    static Map<String, Object> deadLetters(Clients clients) throws Exception {
        DefaultMQProducer producer = clients.producer("ordered-dead-senders");
        for (int number = 0; number < 3; number++) {
            producer.send(clients.message("ordered-dead", "bad", number), (queues, message, key) -> queues.get(0), null);
        }
        producer.shutdown();
        DefaultMQPushConsumer consumer = clients.pusher("ordered-dead-group");
        consumer.setSuspendCurrentQueueTimeMillis(100);
        consumer.setMaxReconsumeTimes(1);
        consumer.setConsumeMessageBatchMaxSize(1);
        consumer.subscribe(clients.name("ordered-dead"), "*");
        Queue<String> tries = new ConcurrentLinkedQueue<>();
        AtomicInteger done = new AtomicInteger();
        consumer.registerMessageListener((MessageListenerOrderly) (messages, context) -> {
            MessageExt one = messages.get(0);
            tries.add(Clients.body(one) + " " + one.getReconsumeTimes());
            if (Clients.body(one).endsWith("-1")) {
                return ConsumeOrderlyStatus.SUSPEND_CURRENT_QUEUE_A_MOMENT;
            }
            done.incrementAndGet();
            return ConsumeOrderlyStatus.SUCCESS;
        });
        consumer.start();
        Clients.await(() -> done.get() >= 2);
        Map<String, Object> outcome = new TreeMap<>();
        outcome.put("tries", new ArrayList<>(tries));
        outcome.put("dead", Retrying.dead(clients, "ordered-dead-group", 1));
        consumer.shutdown();
        return outcome;
    }
}
