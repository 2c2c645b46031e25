package reput.peer;

import java.nio.file.Path;
import java.util.HashMap;
import java.util.Map;
import java.util.Random;
import java.util.concurrent.atomic.AtomicReference;
import org.apache.rocketmq.common.message.MessageAccessor;
import org.apache.rocketmq.common.message.MessageConst;
import org.apache.rocketmq.common.message.MessageDecoder;
import org.apache.rocketmq.common.message.MessageExtBrokerInner;
import org.apache.rocketmq.store.queue.ConsumeQueueInterface;

/**
 * Puts that are timed. What an application gives (topic, body, tags, keys, unique key) is prepared outside the clock; making the
 * message object, its properties and their string, and putting it are inside. Chunks are long, so that the clock hardly ever
 * stops: what RocketMQ dispatches in the background it does beside the puts, not in pauses between them.
 */
final class BenchPutting {
    private static final int CHUNK = 500_000;
    private static final int SEED = 1;

    private final Store store;
    private final int queues;
    private final int bodyBytes;
    private final Random random = new Random(SEED);
    private final byte[] noise = new byte[1 << 20];
    private final String[] topics;

    private BenchPutting(Store store, int queues, int bodyBytes) {
        this.store = store;
        this.queues = queues;
        this.bodyBytes = bodyBytes;
        this.topics = Writing.topics(queues);
        random.nextBytes(noise);
    }

    /** What a chunk's applications give. */
    private record Chunk(int[] queue, byte[][] body, String[] tags, String[] keys, String[] uniqueKey) {
    }

    static Map<String, Object> put(Args args) throws Exception {
        int count = Integer.parseInt(args.position(2, "N"));
        int warmUp = args.number("warm-up", 0);
        int threads = args.number("threads", 1);
        Store store = new Store(Path.of(args.position(1, "STORE")), args);
        store.open();
        BenchPutting putting = new BenchPutting(store, args.number("queues", 64), args.number("body", Writing.BODY_BYTES));
        putting.timed(0, warmUp, threads);
        double seconds = putting.timed(warmUp, count, threads);
        long begin = System.nanoTime();
        store.awaitDispatch();
        double dispatch = (System.nanoTime() - begin) / 1e9;
        long stored = 0;
        for (ConsumeQueueInterface queue : store.queues()) {
            stored += queue.getMaxOffsetInQueue();
        }
        Map<String, Object> report = Json.object("seconds", seconds, "seconds_dispatch", dispatch, "messages", stored,
            "log_bytes", store.rocketmq.getMaxPhyOffset());
        store.close();
        return report;
    }

    private double timed(int first, int count, int threads) throws Exception {
        double seconds = 0;
        for (int done = 0; done < count; done += CHUNK) {
            Chunk chunk = chunk(first + done, Math.min(CHUNK, count - done));
            long begin = System.nanoTime();
            if (threads == 1) {
                putAll(chunk, 0, chunk.queue.length);
            } else {
                putAllAtOnce(chunk, threads);
            }
            seconds += (System.nanoTime() - begin) / 1e9;
        }
        return seconds;
    }

    private Chunk chunk(int first, int size) {
        Chunk chunk = new Chunk(new int[size], new byte[size][], new String[size], new String[size], new String[size]);
        for (int i = 0; i < size; i++) {
            chunk.queue[i] = random.nextInt(queues);
            int at = random.nextInt(noise.length - bodyBytes);
            chunk.body[i] = java.util.Arrays.copyOfRange(noise, at, at + bodyBytes);
            chunk.tags[i] = Writing.tags(first + i);
            chunk.keys[i] = Writing.keys(first + i);
            chunk.uniqueKey[i] = String.format("%032X", first + i);
        }
        return chunk;
    }

    private void putAllAtOnce(Chunk chunk, int threads) throws Exception {
        AtomicReference<RuntimeException> problem = new AtomicReference<>();
        Thread[] started = new Thread[threads];
        for (int t = 0; t < threads; t++) {
            int size = chunk.queue.length;
            int begin = (int) ((long) size * t / threads);
            int end = (int) ((long) size * (t + 1) / threads);
            started[t] = new Thread(() -> {
                try {
                    putAll(chunk, begin, end);
                } catch (RuntimeException failed) {
                    problem.set(failed);
                }
            });
            started[t].start();
        }
        for (Thread thread : started) {
            thread.join();
        }
        if (problem.get() != null) {
            throw problem.get();
        }
    }

    private void putAll(Chunk chunk, int begin, int end) {
        for (int i = begin; i < end; i++) {
            MessageExtBrokerInner message = new MessageExtBrokerInner();
            message.setTopic(topics[chunk.queue[i] / Writing.QUEUES_PER_TOPIC]);
            message.setQueueId(chunk.queue[i] % Writing.QUEUES_PER_TOPIC);
            message.setBody(chunk.body[i]);
            message.setBornTimestamp(System.currentTimeMillis());
            message.setBornHost(Writing.HOST);
            message.setStoreHost(Writing.HOST);
            MessageAccessor.setProperties(message, new HashMap<>());
            message.setTags(chunk.tags[i]);
            message.setKeys(chunk.keys[i]);
            MessageAccessor.putProperty(message, MessageConst.PROPERTY_UNIQ_CLIENT_MESSAGE_ID_KEYIDX, chunk.uniqueKey[i]);
            message.setPropertiesString(MessageDecoder.messageProperties2String(message.getProperties()));
            if (!store.rocketmq.putMessage(message).isOk()) {
                throw new IllegalStateException("a put failed");
            }
        }
    }
}
