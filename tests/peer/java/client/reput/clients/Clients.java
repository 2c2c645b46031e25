package reput.clients;

import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.Collection;
import java.util.Collections;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.TreeMap;
import java.util.function.BooleanSupplier;
import org.apache.rocketmq.client.consumer.DefaultMQPushConsumer;
import org.apache.rocketmq.client.consumer.rebalance.AllocateMessageQueueAveragely;
import org.apache.rocketmq.client.producer.DefaultMQProducer;
import org.apache.rocketmq.common.consumer.ConsumeFromWhere;
import org.apache.rocketmq.common.message.Message;
import org.apache.rocketmq.common.message.MessageExt;

/** Makes clients of one broker, and says what they saw. Each scenario has topics and groups of its own. */
final class Clients {
    static final long LIMIT_MS = 60_000;
    /** A retry topic is made by the first heartbeat; by default its consumer sees that 30 s later. */
    static final int POLL_MS = 500;
    /** Properties whose values differ from run to run. */
    private static final Set<String> NAMED_ONLY = Set.of("UNIQ_KEY", "REAL_QID", "ORIGIN_MESSAGE_ID", "__transactionId__", "TIMER_OUT_MS", "TIMER_DELAY_MS",
        "TIMER_DELIVER_MS", "TIMER_ENQUEUE_MS", "TIMER_DEQUEUE_MS", "CONSUME_START_TIME", "MIN_OFFSET", "MAX_OFFSET", "EXTEND_UNIQ_INFO");

    final String address;
    private final String prefix;

    Clients(String address, String prefix) {
        this.address = address;
        this.prefix = prefix;
    }

    String name(String name) {
        return prefix + name;
    }

    DefaultMQProducer producer(String group) throws Exception {
        DefaultMQProducer producer = new DefaultMQProducer(name(group), Signing.hook());
        producer.setNamesrvAddr(address);
        producer.setSendMsgTimeout(20_000);
        producer.setPollNameServerInterval(POLL_MS);
        producer.start();
        return producer;
    }

    DefaultMQPushConsumer pusher(String group) {
        DefaultMQPushConsumer consumer =
            new DefaultMQPushConsumer(name(group), Signing.hook(), new AllocateMessageQueueAveragely());
        consumer.setNamesrvAddr(address);
        consumer.setPollNameServerInterval(POLL_MS);
        consumer.setConsumeFromWhere(ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET);
        // A shutdown that does not wait for the listener commits less than it got.
        consumer.setAwaitTerminationMillisWhenShutdown(LIMIT_MS);
        consumer.setConsumeThreadMin(4);
        consumer.setConsumeThreadMax(4);
        return consumer;
    }

    Message message(String topic, String kind, int number) {
        Message message = new Message(name(topic), kind, kind + number, bytes(kind + "-" + number));
        message.putUserProperty("number", Integer.toString(number));
        return message;
    }

    static byte[] bytes(String text) {
        return text.getBytes(StandardCharsets.UTF_8);
    }

    static String body(MessageExt message) {
        String body = new String(message.getBody(), StandardCharsets.UTF_8);
        return body.length() > 100 ? "large " + body.length() : body;
    }

    /** What a consumer sees of a message, without what differs from run to run. */
    Map<String, Object> seen(MessageExt message) {
        Map<String, String> properties = new TreeMap<>(message.getProperties());
        properties.replaceAll((name, value) -> NAMED_ONLY.contains(name) ? "" : own(value));
        Map<String, Object> seen = new TreeMap<>();
        seen.put("topic", own(message.getTopic()));
        seen.put("body", body(message));
        seen.put("flag", message.getFlag());
        seen.put("sysFlag", message.getSysFlag());
        seen.put("reconsumeTimes", message.getReconsumeTimes());
        seen.put("properties", properties);
        return seen;
    }

    /** A name of this run without its prefix. */
    String own(String name) {
        return name.replace(prefix, "");
    }

    static List<String> sorted(Collection<?> values) {
        List<String> texts = new ArrayList<>();
        for (Object value : values) {
            texts.add(value instanceof String text ? text : Json.of(value));
        }
        Collections.sort(texts);
        return texts;
    }

    static boolean await(BooleanSupplier isSo) throws InterruptedException {
        long end = System.currentTimeMillis() + LIMIT_MS;
        while (!isSo.getAsBoolean()) {
            if (System.currentTimeMillis() > end) {
                return false;
            }
            Thread.sleep(20);
        }
        return true;
    }
}
