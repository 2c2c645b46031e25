package reput.clients;

import java.util.ArrayList;
import java.util.Collections;
import java.util.List;
import java.util.Map;
import java.util.Queue;
import java.util.Set;
import java.util.TreeMap;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.ConcurrentLinkedQueue;
import org.apache.rocketmq.client.consumer.DefaultMQPushConsumer;
import org.apache.rocketmq.client.consumer.listener.ConsumeConcurrentlyStatus;
import org.apache.rocketmq.client.consumer.listener.MessageListenerConcurrently;
import org.apache.rocketmq.client.producer.DefaultMQProducer;
import org.apache.rocketmq.common.message.MessageExt;

/**
 * Push consumers that leave their assignment to the broker, and pop. The group's mode is POP before. Version 4 of the
 * client has no such consumers, so what they need is called by name.
 */
final class Popping {
    private static final long INVISIBLE_MS = 5_000;

    private Popping() {
    }

    private static DefaultMQPushConsumer popper(Clients clients, String topic, String tags, int instance) throws Exception {
        DefaultMQPushConsumer consumer = clients.pusher(topic + "-group");
        consumer.setInstanceName(topic + instance);
        consumer.subscribe(clients.name(topic), tags);
        DefaultMQPushConsumer.class.getMethod("setClientRebalance", boolean.class).invoke(consumer, false);
        DefaultMQPushConsumer.class.getMethod("setPopInvisibleTime", long.class).invoke(consumer, INVISIBLE_MS);
        return consumer;
    }

    private static void send(Clients clients, String topic, int count) throws Exception {
        DefaultMQProducer producer = clients.producer(topic + "-senders");
        for (int number = 0; number < count; number++) {
            producer.send(clients.message(topic, number % 4 == 3 ? "B" : "A", number));
        }
        producer.shutdown();
    }

    /** Two members of a group take all messages of a tag, each once; those that fail once come again, with one try more. */
    static Map<String, Object> pop(Clients clients) throws Exception {
        Queue<String> got = new ConcurrentLinkedQueue<>();
        Set<String> done = ConcurrentHashMap.newKeySet();
        List<DefaultMQPushConsumer> consumers = new ArrayList<>();
        for (int instance = 0; instance < 2; instance++) {
            DefaultMQPushConsumer consumer = popper(clients, "pop", "A", instance);
            consumer.registerMessageListener((MessageListenerConcurrently) (messages, context) -> {
                MessageExt one = messages.get(0);
                String number = one.getUserProperty("number");
                got.add(clients.own(one.getTopic()) + " " + Clients.body(one) + " " + one.getTags() + " " + one.getKeys() + " " + one.getReconsumeTimes());
                if (one.getReconsumeTimes() == 0 && Integer.parseInt(number) % 5 == 0) {
                    return ConsumeConcurrentlyStatus.RECONSUME_LATER;
                }
                done.add(number);
                return ConsumeConcurrentlyStatus.CONSUME_SUCCESS;
            });
            consumers.add(consumer);
        }
        send(clients, "pop", 40);
        for (DefaultMQPushConsumer consumer : consumers) {
            consumer.start();
        }
        Clients.await(() -> done.size() >= 30);
        // What is acked does not come again.
        Thread.sleep(2 * INVISIBLE_MS);
        for (DefaultMQPushConsumer consumer : consumers) {
            consumer.shutdown();
        }
        List<String> sorted = new ArrayList<>(got);
        Collections.sort(sorted);
        Map<String, Object> outcome = new TreeMap<>();
        outcome.put("got", sorted);
        return outcome;
    }
}
