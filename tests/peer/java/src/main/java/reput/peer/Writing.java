package reput.peer;

import java.net.InetSocketAddress;
import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Random;
import org.apache.rocketmq.common.attribute.CQType;
import org.apache.rocketmq.common.message.MessageAccessor;
import org.apache.rocketmq.common.message.MessageDecoder;
import org.apache.rocketmq.common.message.MessageExt;
import org.apache.rocketmq.common.message.MessageExtBrokerInner;
import org.apache.rocketmq.common.topic.TopicValidator;
import org.apache.rocketmq.store.AppendMessageResult;
import org.apache.rocketmq.store.GetMessageResult;
import org.apache.rocketmq.store.PutMessageResult;
import org.apache.rocketmq.store.QueryMessageResult;
import org.apache.rocketmq.store.SelectMappedBufferResult;
import org.apache.rocketmq.store.queue.ConsumeQueueInterface;

/** Puts messages on one thread: a new store's, or more of them into the queues of an old one. */
final class Writing {
    static final int QUEUES_PER_TOPIC = 8;
    /** With the ten bytes of a topic's name and 76 of properties this makes records of 296 bytes. */
    static final int BODY_BYTES = 119;
    static final InetSocketAddress HOST = new InetSocketAddress("127.0.0.1", 10911);

    private final Store store;
    private final Random random;
    private final String uniqueKeyPrefix;
    private final byte[] noise = new byte[1 << 20];

    private Writing(Store store, int seed) {
        this.store = store;
        this.random = new Random(seed);
        this.uniqueKeyPrefix = String.format("%016X%04X", random.nextLong(), random.nextInt(1 << 16));
        random.nextBytes(noise);
    }

    /** One message, where RocketMQ says it went. */
    private record Put(String topic, int queueId, long queueOffset, long physicalOffset, String uniqueKey, byte[] body) {
    }

    static Map<String, Object> write(Args args) throws Exception {
        int count = Integer.parseInt(args.position(2, "N"));
        int queues = args.number("queues", 64);
        int bodyBytes = args.number("body", BODY_BYTES);
        Store store = new Store(Path.of(args.position(1, "STORE")), args);
        Writing writing = new Writing(store, args.number("seed", 1));
        store.open();
        String[] topics = topics(queues);
        long begin = System.nanoTime();
        for (int i = 0; i < count; i++) {
            int queue = writing.random.nextInt(queues);
            writing.put(topics[queue / QUEUES_PER_TOPIC], queue % QUEUES_PER_TOPIC, i, bodyBytes);
        }
        double putSeconds = (System.nanoTime() - begin) / 1e9;
        store.awaitDispatch();
        Map<String, Object> report = Json.object("messages", count, "queues", queues,
            "log_bytes", store.rocketmq.getMaxPhyOffset(),
            "seconds_put", putSeconds,
            "seconds_dispatched", (System.nanoTime() - begin) / 1e9);
        store.close();
        return report;
    }

    static String[] topics(int queues) {
        String[] topics = new String[(queues + QUEUES_PER_TOPIC - 1) / QUEUES_PER_TOPIC];
        for (int i = 0; i < topics.length; i++) {
            topics[i] = "bench-" + padded(i, 4, 10);
        }
        return topics;
    }

    static Map<String, Object> append(Args args) throws Exception {
        int count = Integer.parseInt(args.position(2, "N"));
        Store store = new Store(Path.of(args.position(1, "STORE")), args);
        store.open();
        Writing writing = new Writing(store, args.number("seed", (int) System.nanoTime()));
        List<ConsumeQueueInterface> queues = store.queues().stream().filter(Writing::takesMessages).toList();
        List<Put> puts = new ArrayList<>();
        for (int i = 0; i < count; i++) {
            ConsumeQueueInterface queue = queues.get(i % queues.size());
            puts.add(writing.put(queue.getTopic(), queue.getQueueId(), i, BODY_BYTES));
        }
        store.awaitDispatch();
        Map<String, Object> report = Json.object("appended", puts.size(),
            "read_back", puts.stream().filter(writing::readsBack).count(),
            "found_by_key", puts.stream().filter(writing::foundByKey).count(),
            "queues", ranges(puts, queues));
        store.close();
        return report;
    }

    /** RocketMQ would deliver what is put into the schedule topic elsewhere, so we leave it alone. */
    private static boolean takesMessages(ConsumeQueueInterface queue) {
        return queue.getCQType() != CQType.BatchCQ && !queue.getTopic().equals(TopicValidator.RMQ_SYS_SCHEDULE_TOPIC)
            && !isMiscounted(queue.getTopic());
    }

    /**
     * A topic of more than 127 bytes in at most 127 characters: RocketMQ 5.5.1 counts characters, writes a record whose one byte
     * of length is negative, and stops dispatching at it.
     */
    private static boolean isMiscounted(String topic) {
        return topic.length() <= Byte.MAX_VALUE && topic.getBytes(StandardCharsets.UTF_8).length > Byte.MAX_VALUE;
    }

    private Put put(String topic, int queueId, int number, int bodyBytes) {
        String uniqueKey = uniqueKeyPrefix + padded(number, 12, 16).toUpperCase();
        byte[] body = body(bodyBytes);
        MessageExtBrokerInner message = new MessageExtBrokerInner();
        message.setTopic(topic);
        message.setQueueId(queueId);
        message.setBody(body);
        message.setBornTimestamp(System.currentTimeMillis());
        message.setBornHost(HOST);
        message.setStoreHost(HOST);
        MessageAccessor.setProperties(message, new HashMap<>()); // the put looks into it; what is stored is the string
        message.setPropertiesString(properties(uniqueKey, number));
        PutMessageResult result = store.rocketmq.putMessage(message);
        if (!result.isOk()) {
            throw new IllegalStateException("put of message " + number + " failed: " + result);
        }
        AppendMessageResult where = result.getAppendMessageResult();
        return new Put(topic, queueId, where.getLogicsOffset(), where.getWroteOffset(), uniqueKey, body);
    }

    static String properties(String uniqueKey, int number) {
        return "UNIQ_KEY\u0001" + uniqueKey + "\u0002KEYS\u0001" + keys(number) + "\u0002TAGS\u0001" + tags(number) + "\u0002";
    }

    static String keys(int number) {
        return "order-" + padded(number, 10, 10);
    }

    static String tags(int number) {
        return "tag-" + padded(number % 100, 2, 10);
    }

    private static String padded(int number, int width, int radix) {
        String digits = Integer.toString(number, radix);
        return "0".repeat(width - digits.length()) + digits;
    }

    private byte[] body(int bytes) {
        byte[] body = new byte[bytes];
        System.arraycopy(noise, random.nextInt(noise.length - bytes), body, 0, bytes);
        return body;
    }

    private boolean readsBack(Put put) {
        GetMessageResult result = store.rocketmq.getMessage("g", put.topic, put.queueId, put.queueOffset, 1, null);
        try {
            return result.getMessageBufferList().stream().map(ByteBuffer::duplicate).map(MessageDecoder::decode)
                .anyMatch(message -> isThat(message, put));
        } finally {
            result.release();
        }
    }

    private static boolean isThat(MessageExt message, Put put) {
        return message.getTopic().equals(put.topic) && message.getQueueId() == put.queueId
            && message.getQueueOffset() == put.queueOffset && message.getCommitLogOffset() == put.physicalOffset
            && Arrays.equals(message.getBody(), put.body);
    }

    private boolean foundByKey(Put put) {
        QueryMessageResult result = store.rocketmq.queryMessage(put.topic, put.uniqueKey, 32, 0, Long.MAX_VALUE);
        try {
            return result.getMessageMapedList().stream().map(SelectMappedBufferResult::getStartOffset)
                .anyMatch(offset -> offset == put.physicalOffset);
        } finally {
            result.release();
        }
    }

    private static List<Object> ranges(List<Put> puts, List<ConsumeQueueInterface> queues) {
        List<Object> ranges = new ArrayList<>();
        for (ConsumeQueueInterface queue : queues) {
            List<Long> offsets = puts.stream()
                .filter(put -> put.topic.equals(queue.getTopic()) && put.queueId == queue.getQueueId())
                .map(Put::queueOffset).toList();
            if (!offsets.isEmpty()) {
                ranges.add(Json.object("topic", queue.getTopic(), "queue", queue.getQueueId(),
                    "first", offsets.get(0), "last", offsets.get(offsets.size() - 1)));
            }
        }
        return ranges;
    }
}
