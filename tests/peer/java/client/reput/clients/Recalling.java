package reput.clients;

import java.lang.reflect.InvocationTargetException;
import java.util.Map;
import java.util.Queue;
import java.util.TreeMap;
import org.apache.rocketmq.client.consumer.DefaultMQPushConsumer;
import org.apache.rocketmq.client.exception.MQBrokerException;
import org.apache.rocketmq.client.producer.DefaultMQProducer;
import org.apache.rocketmq.client.producer.SendResult;
import org.apache.rocketmq.common.message.Message;
import org.apache.rocketmq.common.message.MessageAccessor;

/** Timer messages that their sender recalls. Version 4 of the client cannot, so what it needs is called by name. */
final class Recalling {
    private static final int COUNT = 6;
    /** A busy machine takes and recalls all of them in this time. */
    private static final long LATER_MS = 10_000;

    private Recalling() {
    }

    private static Object recall(DefaultMQProducer producer, String topic, String handle) throws Exception {
        try {
            return DefaultMQProducer.class.getMethod("recallMessage", String.class, String.class).invoke(producer, topic, handle);
        } catch (InvocationTargetException failed) {
            return failed.getCause() instanceof MQBrokerException refused ? "broker " + refused.getResponseCode() : failed.getCause().getClass().getSimpleName();
        }
    }

    /** Every second message is recalled, one of them twice; the others come at their time. */
    static Map<String, Object> recall(Clients clients) throws Exception {
        String topic = clients.name("recall");
        DefaultMQPushConsumer consumer = clients.pusher("recall-group");
        consumer.subscribe(topic, "*");
        Queue<Object> got = Pushing.noting(clients, consumer);
        consumer.start();
        DefaultMQProducer producer = clients.producer("recall-senders");
        long due = System.currentTimeMillis() + LATER_MS;
        Map<String, Object> outcome = new TreeMap<>();
        int recalled = 0;
        for (int number = 0; number < COUNT; number++) {
            Message message = clients.message("recall", "late", number);
            MessageAccessor.putProperty(message, "TIMER_DELIVER_MS", Long.toString(due));
            SendResult result = producer.send(message);
            String handle = (String) SendResult.class.getMethod("getRecallHandle").invoke(result);
            if (number % 2 == 0) {
                recalled += result.getMsgId().equals(recall(producer, topic, handle)) ? 1 : 0;
            }
            if (number == 0) {
                outcome.put("again", result.getMsgId().equals(recall(producer, topic, handle)));
                outcome.put("of another topic", recall(producer, clients.name("timer"), handle));
            }
        }
        outcome.put("recalled", recalled);
        outcome.put("no handle", recall(producer, topic, "garbage"));
        Clients.await(() -> got.size() >= COUNT / 2);
        Thread.sleep(2_000);
        outcome.put("got", Clients.sorted(got));
        consumer.shutdown();
        producer.shutdown();
        return outcome;
    }
}
