package reput.clients5;

import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Collections;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.TreeMap;
import java.util.function.BooleanSupplier;
import org.apache.rocketmq.client.apis.ClientConfiguration;
import org.apache.rocketmq.client.apis.ClientException;
import org.apache.rocketmq.client.apis.ClientServiceProvider;
import org.apache.rocketmq.client.apis.consumer.FilterExpression;
import org.apache.rocketmq.client.apis.consumer.FilterExpressionType;
import org.apache.rocketmq.client.apis.consumer.SimpleConsumer;
import org.apache.rocketmq.client.apis.message.MessageBuilder;
import org.apache.rocketmq.client.apis.message.MessageView;
import org.apache.rocketmq.client.apis.producer.Producer;
import reput.clients.Json;

/** Makes clients of one gRPC port, and says what they saw. Each scenario has a topic and groups of its own. */
final class Clients {
    static final long LIMIT_MS = 60_000;
    /** The shortest invisible time that is taken. */
    static final Duration LEASE = Duration.ofSeconds(10);
    /** The shortest poll that is taken. */
    static final Duration WAIT = Duration.ofSeconds(5);

    /** Properties that differ from run to run. */
    private static final Set<String> OF_A_RUN = Set.of("__transactionId__", "TRANSACTION_CHECK_TIMES");

    final ClientServiceProvider provider = ClientServiceProvider.loadService();
    final ClientConfiguration configuration;

    Clients(String address) {
        configuration = ClientConfiguration.newBuilder()
            .setEndpoints(address)
            .enableSsl(false)
            .setRequestTimeout(Duration.ofSeconds(20))
            .build();
    }

    Producer producer(String topic) throws ClientException {
        return provider.newProducerBuilder().setClientConfiguration(configuration).setTopics(topic).build();
    }

    SimpleConsumer consumer(String topic, String tags) throws ClientException {
        return consumer(topic, topic + "-readers", new FilterExpression(tags, FilterExpressionType.TAG));
    }

    SimpleConsumer consumer(String topic, String group, FilterExpression wanted) throws ClientException {
        return provider.newSimpleConsumerBuilder()
            .setClientConfiguration(configuration)
            .setConsumerGroup(group)
            .setAwaitDuration(WAIT)
            .setSubscriptionExpressions(Map.of(topic, wanted))
            .build();
    }

    MessageBuilder message(String topic, String body) {
        return provider.newMessageBuilder().setTopic(topic).setBody(body.getBytes(StandardCharsets.UTF_8));
    }

    /** Receives and acknowledges messages until there are this many. */
    static List<MessageView> take(SimpleConsumer consumer, int count) throws Exception {
        List<MessageView> taken = new ArrayList<>();
        long end = System.currentTimeMillis() + LIMIT_MS;
        while (taken.size() < count && System.currentTimeMillis() < end) {
            for (MessageView one : consumer.receive(16, LEASE)) {
                consumer.ack(one);
                taken.add(one);
            }
        }
        return taken;
    }

    /** What more comes in the time of one poll. */
    static List<String> then(SimpleConsumer consumer) throws Exception {
        return sorted(take(consumer, consumer.receive(16, LEASE).stream().mapToInt(one -> 1).sum()));
    }

    static String body(MessageView message) {
        String body = StandardCharsets.UTF_8.decode(message.getBody()).toString();
        return body.length() > 100 ? "large " + body.length() : body;
    }

    /** What a consumer sees of a message, without what differs from run to run. */
    static String seen(MessageView message) {
        Map<String, Object> seen = new TreeMap<>();
        seen.put("topic", message.getTopic());
        seen.put("body", body(message));
        seen.put("tag", message.getTag().orElse(""));
        seen.put("keys", message.getKeys().stream().sorted().toList());
        seen.put("group", message.getMessageGroup().orElse(""));
        seen.put("lite topic", message.getLiteTopic().orElse(""));
        seen.put("has due time", message.getDeliveryTimestamp().isPresent());
        seen.put("attempt", message.getDeliveryAttempt());
        Map<String, String> properties = new TreeMap<>(message.getProperties());
        properties.keySet().removeAll(OF_A_RUN);
        seen.put("properties", properties);
        return Json.of(seen);
    }

    static List<String> sorted(List<MessageView> messages) {
        List<String> texts = new ArrayList<>(messages.stream().map(Clients::seen).toList());
        Collections.sort(texts);
        return texts;
    }

    static boolean await(BooleanSupplier isSo) throws InterruptedException {
        return await(isSo, LIMIT_MS);
    }

    static boolean await(BooleanSupplier isSo, long limitMs) throws InterruptedException {
        long end = System.currentTimeMillis() + limitMs;
        while (!isSo.getAsBoolean()) {
            if (System.currentTimeMillis() > end) {
                return false;
            }
            Thread.sleep(20);
        }
        return true;
    }
}
