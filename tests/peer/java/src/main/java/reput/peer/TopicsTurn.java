package reput.peer;

import java.io.BufferedReader;
import java.io.FileDescriptor;
import java.io.FileOutputStream;
import java.io.InputStream;
import java.io.InputStreamReader;
import java.io.OutputStream;
import java.io.PrintStream;
import java.nio.charset.StandardCharsets;
import java.util.Arrays;
import java.util.Map;
import java.util.Random;
import java.util.concurrent.Callable;

/**
 * One side of the comparison by topics: opens a new store, puts the first messages into each queue, and then puts as the lines on
 * stdin ask, in answer to each with a line of JSON:
 *
 * <pre>
 * MODE BODY_BYTES WARM_UP_MS TIMED_MS BYTES_MAX EACH     single: one by one; batch: BATCH messages of one queue at once
 * </pre>
 *
 * With EACH above 0, the warm-up begins with some messages into each queue.
 *
 * The first line on stdout says whether all queues could be opened. What an application gives (topic, body, tags, keys, unique key)
 * is prepared outside the clock; making the message object and its bytes, and putting it, are inside. The messages are used again
 * from the first one where the time allows for more of them.
 *
 * The process ends without closing the store, which nobody opens again.
 */
abstract class TopicsTurn {
    static final int QUEUES_PER_TOPIC = 8;
    static final int BATCH = 100;
    private static final int MESSAGES = 500_000;
    private static final int BODIES = 1024;
    private static final int FIRST_BODY_BYTES = 128;
    /**
     * Messages of the first batch of a queue. With one more after it each file of the queue has begun: Kafka begins the indexes of a
     * log after 4 KiB.
     */
    private static final int FIRST_BATCH = 20;
    private static final int SEED = 1;
    private static final int OTHER_BYTES = 200;
    private static final int CLOCK_EVERY = 64;

    final int queues;
    final String[] topics;
    private final Random random = new Random(SEED);
    private final byte[][] bodies = new byte[BODIES][];
    private final int[] queue = new int[MESSAGES];
    private final String[] tags = new String[MESSAGES];
    private final String[] keys = new String[MESSAGES];
    private final String[] uniqueKey = new String[MESSAGES];
    private int next;
    private long put;

    TopicsTurn(int queues) {
        this.queues = queues;
        topics = new String[(queues + QUEUES_PER_TOPIC - 1) / QUEUES_PER_TOPIC];
        for (int i = 0; i < topics.length; i++) {
            topics[i] = String.format("bench-%04d", i);
        }
        for (int i = 0; i < MESSAGES; i++) {
            queue[i] = random.nextInt(queues);
            tags[i] = String.format("tag-%02d", i % 100);
            keys[i] = String.format("order-%010d", i);
            uniqueKey[i] = String.format("%032X", i);
        }
    }

    /** What an application gives for one message. */
    record Given(byte[] body, String tags, String keys, String uniqueKey) {
    }

    abstract void openStore() throws Exception;

    /** Puts one message; fails unless it is stored. */
    abstract void put(int queue, Given given) throws Exception;

    /** Puts messages of one queue at once; fails unless they are stored. */
    abstract void put(int queue, Given[] given) throws Exception;

    /** Waits for what is under way; the clock runs. */
    void settle() throws Exception {
    }

    /** Waits until every queue is there, where a put does not see to that itself. */
    void awaitQueues() throws Exception {
    }

    /** How many messages all queues have. */
    abstract long stored() throws Exception;

    /** Runs a side in a process of its own; what others print goes nowhere, and threads that are left do not keep it. */
    static void main(Callable<TopicsTurn> side) {
        PrintStream out = new PrintStream(new FileOutputStream(FileDescriptor.out), true, StandardCharsets.UTF_8);
        System.setOut(new PrintStream(OutputStream.nullOutputStream()));
        int status = 0;
        try {
            side.call().run(System.in, out);
        } catch (Throwable problem) {
            problem.printStackTrace();
            status = 1;
        }
        Runtime.getRuntime().halt(status);
    }

    /** How many messages have been put. */
    final long put() {
        return put;
    }

    private void run(InputStream in, PrintStream out) throws Exception {
        out.println(Json.text(opened()));
        BufferedReader lines = new BufferedReader(new InputStreamReader(in, StandardCharsets.UTF_8));
        for (String line = lines.readLine(); line != null; line = lines.readLine()) {
            String[] words = line.split(" ");
            boolean batch = words[0].equals("batch");
            makeBodies(Integer.parseInt(words[1]));
            long most = Long.parseLong(words[4]);
            if (Integer.parseInt(words[5]) > 0) {
                putIntoEach();
            }
            work(batch, Long.parseLong(words[2]) * 1_000_000, most);
            long before = put;
            double seconds = work(batch, Long.parseLong(words[3]) * 1_000_000, most);
            out.println(Json.text(Json.object("messages", put - before, "seconds", seconds)));
        }
        out.println(Json.text(Json.object("put", put, "stored", stored())));
    }

    private Map<String, Object> opened() {
        makeBodies(FIRST_BODY_BYTES);
        long begin = System.nanoTime();
        try {
            openStore();
            putIntoEach();
            awaitQueues();
        } catch (Throwable failed) {
            return Json.object("queues", Math.min(queues, put / FIRST_BATCH), "problem", failed.toString());
        }
        return Json.object("queues", queues, "seconds", (System.nanoTime() - begin) / 1e9);
    }

    /** So that each file of a queue has begun, and none of the pages that the next messages need has gone from memory. */
    private void putIntoEach() throws Exception {
        for (int one = 0; one < queues; one++) {
            put(one, batch(FIRST_BATCH, one % BATCH));
            put += FIRST_BATCH;
        }
        for (int one = 0; one < queues; one++) {
            put(one, given(one % MESSAGES));
            put++;
        }
        settle();
    }

    private void makeBodies(int size) {
        for (int i = 0; i < BODIES; i++) {
            bodies[i] = new byte[size];
            random.nextBytes(bodies[i]);
        }
    }

    private Given given(int number) {
        return new Given(bodies[number % BODIES], tags[number], keys[number], uniqueKey[number]);
    }

    /** Puts until the time or the bytes are over; returns the seconds. */
    private double work(boolean batch, long nanos, long bytesMax) throws Exception {
        long left = bytesMax / (bodies[0].length + OTHER_BYTES);
        long begin = System.nanoTime();
        long now = begin;
        while (now - begin < nanos && left > 0) {
            int count = batch ? putBatch() : putSome();
            put += count;
            left -= count;
            now = System.nanoTime();
        }
        settle();
        return (System.nanoTime() - begin) / 1e9;
    }

    private int putSome() throws Exception {
        for (int i = 0; i < CLOCK_EVERY; i++) {
            put(queue[next], given(next));
            next = (next + 1) % MESSAGES;
        }
        return CLOCK_EVERY;
    }

    private int putBatch() throws Exception {
        int first = next - next % BATCH;
        put(queue[first], batch(BATCH, first));
        next = (first + BATCH) % MESSAGES;
        return BATCH;
    }

    private Given[] batch(int size, int first) {
        Given[] given = new Given[size];
        Arrays.setAll(given, i -> given(first + i));
        return given;
    }
}
