package reput.clients;

import java.lang.reflect.Method;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.Queue;
import java.util.TreeMap;
import java.util.concurrent.ConcurrentLinkedQueue;
import org.apache.rocketmq.client.consumer.DefaultMQPushConsumer;
import org.apache.rocketmq.client.consumer.MessageSelector;
import org.apache.rocketmq.client.consumer.listener.ConsumeConcurrentlyStatus;
import org.apache.rocketmq.client.consumer.listener.MessageListenerConcurrently;
import org.apache.rocketmq.client.producer.DefaultMQProducer;
import org.apache.rocketmq.common.message.Message;
import org.apache.rocketmq.common.message.MessageExt;

/** Push consumers that take what comes. */
final class Pushing {
    private Pushing() {
    }

    /** A consumer that notes every message, as a consumer sees it. */
    static Queue<Object> noting(Clients clients, DefaultMQPushConsumer consumer) {
        Queue<Object> got = new ConcurrentLinkedQueue<>();
        consumer.registerMessageListener((MessageListenerConcurrently) (messages, context) -> {
            for (MessageExt one : messages) {
                got.add(clients.seen(one));
            }
            return ConsumeConcurrentlyStatus.CONSUME_SUCCESS;
        });
        return got;
    }

    private static Map<String, Object> got(Queue<Object> got) {
        Map<String, Object> outcome = new TreeMap<>();
        outcome.put("got", Clients.sorted(got));
        return outcome;
    }

    /** Takes what the scenario `send` sends, each in its way. */
    static Map<String, Object> push(Clients clients) throws Exception {
        DefaultMQPushConsumer consumer = clients.pusher("pushers");
        consumer.subscribe(clients.name("send"), "*");
        Queue<Object> got = noting(clients, consumer);
        consumer.start();
        Clients.await(() -> got.size() >= 4 * Sending.COUNT + 1);
        consumer.shutdown();
        return got(got);
    }

    private static Message numbered(Clients clients, String topic, int number) {
        Message message = clients.message(topic, "tag" + number % 3, number);
        message.putUserProperty("color", number % 2 == 0 ? "red" : "blue");
        return message;
    }

    /** Sends 30 messages, then takes some of them; the last one ends the scenario. */
    private static Map<String, Object> filtered(Clients clients, String topic, MessageSelector wanted, int count) throws Exception {
        DefaultMQProducer producer = clients.producer(topic + "-senders");
        for (int number = 0; number < 30; number++) {
            producer.send(numbered(clients, topic, number));
        }
        producer.shutdown();
        DefaultMQPushConsumer consumer = clients.pusher(topic + "-group");
        consumer.subscribe(clients.name(topic), wanted);
        Queue<Object> got = noting(clients, consumer);
        consumer.start();
        Clients.await(() -> got.size() >= count);
        Thread.sleep(300);
        consumer.shutdown();
        return got(got);
    }

    static Map<String, Object> tags(Clients clients) throws Exception {
        return filtered(clients, "tags", MessageSelector.byTag("tag1 || none || tag2"), 20);
    }

    static Map<String, Object> sql(Clients clients) throws Exception {
        return filtered(clients, "sql", MessageSelector.bySql("number > 9 AND color = 'red' OR TAGS = 'tag1'"), 16);
    }

    /** Two consumers of one group that both get everything. */
    static Map<String, Object> broadcast(Clients clients) throws Exception {
        List<DefaultMQPushConsumer> consumers = new ArrayList<>();
        List<Queue<Object>> got = new ArrayList<>();
        for (int number = 0; number < 2; number++) {
            DefaultMQPushConsumer consumer = clients.pusher("broadcast-group");
            consumer.setInstanceName(clients.name("listener") + number);
            broadcasting(consumer);
            consumer.subscribe(clients.name("broadcast"), "*");
            got.add(noting(clients, consumer));
            consumer.start();
            consumers.add(consumer);
        }
        DefaultMQProducer producer = clients.producer("broadcasters");
        for (int number = 0; number < 12; number++) {
            producer.send(clients.message("broadcast", "all", number));
        }
        Map<String, Object> outcome = new TreeMap<>();
        for (int number = 0; number < 2; number++) {
            Queue<Object> own = got.get(number);
            Clients.await(() -> own.size() >= 12);
            outcome.put("got" + number, Clients.sorted(own));
            consumers.get(number).shutdown();
        }
        producer.shutdown();
        return outcome;
    }

    /** The enum of message models has moved to another package between the versions. */
    private static void broadcasting(DefaultMQPushConsumer consumer) throws Exception {
        Method getter = DefaultMQPushConsumer.class.getMethod("getMessageModel");
        Class<?> models = getter.getReturnType();
        Object model = models.getMethod("valueOf", String.class).invoke(null, "BROADCASTING");
        DefaultMQPushConsumer.class.getMethod("setMessageModel", models).invoke(consumer, model);
    }
}
