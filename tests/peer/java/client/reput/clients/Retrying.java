package reput.clients;

import java.util.ArrayList;
import java.util.Collections;
import java.util.List;
import java.util.Map;
import java.util.Queue;
import java.util.TreeMap;
import java.util.concurrent.ConcurrentLinkedQueue;
import java.util.concurrent.atomic.AtomicInteger;
import org.apache.rocketmq.client.consumer.DefaultMQPullConsumer;
import org.apache.rocketmq.client.consumer.DefaultMQPushConsumer;
import org.apache.rocketmq.client.consumer.PullResult;
import org.apache.rocketmq.client.consumer.listener.ConsumeConcurrentlyStatus;
import org.apache.rocketmq.client.consumer.listener.MessageListenerConcurrently;
import org.apache.rocketmq.client.producer.DefaultMQProducer;
import org.apache.rocketmq.common.message.MessageExt;
import org.apache.rocketmq.common.message.MessageQueue;

/** Consumers that fail: what comes again, and how; what becomes a dead letter. */
final class Retrying {
    private Retrying() {
    }

    private static void send(Clients clients, String topic, int count) throws Exception {
        DefaultMQProducer producer = clients.producer(topic + "-senders");
        for (int number = 0; number < count; number++) {
            producer.send(clients.message(topic, "again", number));
        }
        producer.shutdown();
    }

    /** Each message fails twice; each try is noted, with the place and the properties that it comes with. */
    static Map<String, Object> retry(Clients clients) throws Exception {
        send(clients, "retry", 5);
        DefaultMQPushConsumer consumer = clients.pusher("retry-group");
        consumer.subscribe(clients.name("retry"), "*");
        Queue<Object> tries = new ConcurrentLinkedQueue<>();
        AtomicInteger done = new AtomicInteger();
        consumer.registerMessageListener((MessageListenerConcurrently) (messages, context) -> {
            MessageExt one = messages.get(0);
            Map<String, Object> seen = clients.seen(one);
            seen.put("offset id", one.getProperty("ORIGIN_MESSAGE_ID") == null);
            tries.add(seen);
            if (one.getReconsumeTimes() < 2) {
                return ConsumeConcurrentlyStatus.RECONSUME_LATER;
            }
            done.incrementAndGet();
            return ConsumeConcurrentlyStatus.CONSUME_SUCCESS;
        });
        consumer.start();
        Clients.await(() -> done.get() >= 5);
        consumer.shutdown();
        Map<String, Object> outcome = new TreeMap<>();
        outcome.put("tries", Clients.sorted(tries));
        return outcome;
    }

    /** Messages that fail more often than their group allows, or that are never to come again. */
    static Map<String, Object> deadLetters(Clients clients) throws Exception {
        send(clients, "dead", 4);
        DefaultMQPushConsumer consumer = clients.pusher("dead-group");
        consumer.setMaxReconsumeTimes(1);
        consumer.subscribe(clients.name("dead"), "*");
        Queue<String> tries = new ConcurrentLinkedQueue<>();
        consumer.registerMessageListener((MessageListenerConcurrently) (messages, context) -> {
            MessageExt one = messages.get(0);
            tries.add(Clients.body(one) + " " + one.getReconsumeTimes());
            if (Clients.body(one).endsWith("-3")) {
                context.setDelayLevelWhenNextConsume(-1);
            }
            return ConsumeConcurrentlyStatus.RECONSUME_LATER;
        });
        consumer.start();
        Map<String, Object> outcome = new TreeMap<>();
        outcome.put("dead", dead(clients, "dead-group", 4));
        consumer.shutdown();
        List<String> sorted = new ArrayList<>(tries);
        Collections.sort(sorted);
        outcome.put("tries", sorted);
        return outcome;
    }

    /** The dead letters of a group, when there are so many. */
    @SuppressWarnings("deprecation")
    static List<String> dead(Clients clients, String group, int count) throws Exception {
        DefaultMQPullConsumer reader = new DefaultMQPullConsumer(clients.name(group + "-dead-readers"));
        reader.setNamesrvAddr(clients.address);
        reader.start();
        List<Object> found = new ArrayList<>();
        long end = System.currentTimeMillis() + Clients.LIMIT_MS;
        while (found.size() < count && System.currentTimeMillis() < end) {
            Thread.sleep(100);
            found.clear();
            for (MessageQueue queue : queues(reader, "%DLQ%" + clients.name(group))) {
                PullResult pulled = reader.pull(queue, "*", 0, 32);
                if (pulled.getMsgFoundList() != null) {
                    pulled.getMsgFoundList().forEach(one -> found.add(clients.seen(one)));
                }
            }
        }
        reader.shutdown();
        return Clients.sorted(found);
    }

    private static Iterable<MessageQueue> queues(DefaultMQPullConsumer reader, String topic) {
        try {
            return reader.fetchSubscribeMessageQueues(topic);
        } catch (Exception noRouteYet) {
            return List.of();
        }
    }
}
