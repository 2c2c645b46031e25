package reput.clients;

import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.List;
import java.util.TreeSet;
import java.util.concurrent.ConcurrentSkipListSet;
import org.apache.rocketmq.client.consumer.DefaultLitePullConsumer;
import org.apache.rocketmq.client.consumer.DefaultMQPushConsumer;
import org.apache.rocketmq.client.consumer.listener.ConsumeConcurrentlyStatus;
import org.apache.rocketmq.client.consumer.listener.MessageListenerConcurrently;
import org.apache.rocketmq.client.producer.DefaultMQProducer;
import org.apache.rocketmq.client.producer.SendResult;
import org.apache.rocketmq.common.consumer.ConsumeFromWhere;
import org.apache.rocketmq.common.message.Message;
import org.apache.rocketmq.common.message.MessageExt;

/** What one client does with a broker. Each scenario writes what it saw to stdout, one JSON object. */
public final class Scenario {
    private static final long TIMEOUT_MS = 60_000;

    public static void main(String[] args) throws Exception {
        String name = args[0];
        String address = args[1];
        String topic = args[2];
        int count = Integer.parseInt(args[3]);
        switch (name) {
            case "send" -> send(address, topic, count);
            case "push" -> push(address, topic, count, text(args, 4, "*"), text(args, 5, "pushers"));
            case "litepull" -> litePull(address, topic, count);
            default -> throw new IllegalArgumentException(name);
        }
        System.exit(0);
    }

    private static String text(String[] args, int at, String otherwise) {
        return args.length > at ? args[at] : otherwise;
    }

    private static Message message(String topic, String kind, int number) {
        byte[] body = (kind + "-" + number).getBytes(StandardCharsets.UTF_8);
        return new Message(topic, kind, kind + number, body);
    }

    private static void send(String address, String topic, int count) throws Exception {
        DefaultMQProducer producer = new DefaultMQProducer("producers");
        producer.setNamesrvAddr(address);
        producer.start();
        List<String> ids = new ArrayList<>();
        for (int number = 0; number < count; number++) {
            SendResult sent = producer.send(message(topic, "sync", number));
            ids.add(sent.getOffsetMsgId() + " " + sent.getMsgId() + " " + sent.getMessageQueue().getQueueId() + " "
                + sent.getQueueOffset() + " " + sent.getSendStatus());
        }
        for (int number = 0; number < count; number++) {
            producer.sendOneway(message(topic, "oneway", number));
        }
        List<Message> batch = new ArrayList<>();
        for (int number = 0; number < count; number++) {
            batch.add(message(topic, "batch", number));
        }
        SendResult sent = producer.send(batch);
        StringBuilder large = new StringBuilder();
        for (int number = 0; number < 10_000; number++) {
            large.append("large ");
        }
        producer.send(new Message(topic, "large", "large0", large.toString().getBytes(StandardCharsets.UTF_8)));
        write("sent", ids, "batch", List.of(sent.getSendStatus().name(), sent.getOffsetMsgId(), sent.getMsgId()));
        producer.shutdown();
    }

    private static void push(String address, String topic, int count, String tags, String group) throws Exception {
        DefaultMQPushConsumer consumer = new DefaultMQPushConsumer(group);
        consumer.setNamesrvAddr(address);
        consumer.setConsumeFromWhere(ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET);
        consumer.subscribe(topic, tags);
        // A shutdown that does not wait for the listener commits less than it got.
        consumer.setAwaitTerminationMillisWhenShutdown(TIMEOUT_MS);
        ConcurrentSkipListSet<String> got = new ConcurrentSkipListSet<>();
        consumer.registerMessageListener((MessageListenerConcurrently) (messages, context) -> {
            for (MessageExt one : messages) {
                got.add(text(one));
            }
            return ConsumeConcurrentlyStatus.CONSUME_SUCCESS;
        });
        consumer.start();
        await(got, count);
        consumer.shutdown();
        write("got", new ArrayList<>(got), "topic", List.of(topic));
    }

    private static void litePull(String address, String topic, int count) throws Exception {
        DefaultLitePullConsumer consumer = new DefaultLitePullConsumer("pullers");
        consumer.setNamesrvAddr(address);
        consumer.setConsumeFromWhere(ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET);
        consumer.subscribe(topic, "*");
        consumer.start();
        TreeSet<String> got = new TreeSet<>();
        long end = System.currentTimeMillis() + TIMEOUT_MS;
        while (got.size() < count && System.currentTimeMillis() < end) {
            for (MessageExt one : consumer.poll(1000)) {
                got.add(text(one));
            }
        }
        consumer.commit();
        consumer.shutdown();
        write("got", new ArrayList<>(got), "topic", List.of(topic));
    }

    private static String text(MessageExt message) {
        String body = new String(message.getBody(), StandardCharsets.UTF_8);
        String shown = body.length() > 100 ? "large " + body.length() : body;
        return message.getTags() + " " + message.getKeys() + " " + shown;
    }

    private static void await(ConcurrentSkipListSet<String> got, int count) throws InterruptedException {
        long end = System.currentTimeMillis() + TIMEOUT_MS;
        while (got.size() < count && System.currentTimeMillis() < end) {
            Thread.sleep(20);
        }
    }

    private static void write(String name, List<String> values, String other, List<String> otherValues) {
        System.out.println("{\"" + name + "\":" + list(values) + ",\"" + other + "\":" + list(otherValues) + "}");
    }

    private static String list(List<String> values) {
        StringBuilder text = new StringBuilder("[");
        for (String value : values) {
            text.append(text.length() > 1 ? ",\"" : "\"").append(value).append('"');
        }
        return text.append(']').toString();
    }
}
