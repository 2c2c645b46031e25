package reput.peer;

import com.alibaba.fastjson2.JSON;
import com.alibaba.fastjson2.JSONArray;
import com.alibaba.fastjson2.JSONObject;
import java.nio.ByteBuffer;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import org.apache.rocketmq.common.BoundaryType;
import org.apache.rocketmq.common.message.MessageConst;
import org.apache.rocketmq.common.message.MessageDecoder;
import org.apache.rocketmq.store.DefaultMessageStore;
import org.apache.rocketmq.store.GetMessageResult;
import org.apache.rocketmq.store.GetMessageStatus;
import org.apache.rocketmq.store.QueryMessageResult;
import org.apache.rocketmq.store.queue.ConsumeQueueInterface;

/** Reads of a whole store that are timed: passes over all queues or questions, untimed ones to warm up, then timed ones. */
final class BenchReading {
    private static final int KEY_MESSAGES_MAX = 32;

    private final Store store;
    private final DefaultMessageStore rocketmq;
    private final double seconds;

    private BenchReading(Store store, double seconds) {
        this.store = store;
        this.rocketmq = store.rocketmq;
        this.seconds = seconds;
    }

    /** One pass: what it did, and a sum of its answers, to be compared. */
    private record Pass(long done, long sum) {
    }

    private interface Work {
        Pass pass() throws Exception;
    }

    static Map<String, Object> read(Args args) throws Exception {
        Store store = new Store(Path.of(args.position(1, "STORE")), args);
        store.open();
        BenchReading reading = new BenchReading(store, args.number("milliseconds", 1000) / 1e3);
        Map<String, Object> report = Json.object();
        for (String pull : args.all("pull")) {
            int most = Integer.parseInt(pull);
            report.put("get_" + most, reading.timed(() -> reading.getAll(most, false)));
        }
        for (String pull : args.all("bodies")) {
            int most = Integer.parseInt(pull);
            report.put("bodies_" + most, reading.timed(() -> reading.getAll(most, true)));
        }
        for (String file : args.all("questions")) {
            List<JSONArray> times = new ArrayList<>();
            List<JSONArray> keys = new ArrayList<>();
            for (String line : Files.readAllLines(Path.of(file))) {
                JSONObject question = JSON.parseObject(line);
                (question.containsKey("time") ? times : keys).add(question.getJSONArray(question.containsKey("time") ? "time" : "key"));
            }
            report.put("time", reading.timed(() -> reading.askTimes(times)));
            Map<String, Object> key = reading.timed(() -> reading.askKeys(keys, false));
            key.put("sum", reading.askKeys(keys, true).sum);
            report.put("key", key);
        }
        store.close();
        return report;
    }

    private Map<String, Object> timed(Work work) throws Exception {
        long begin = System.nanoTime();
        while ((System.nanoTime() - begin) / 1e9 < seconds) {
            work.pass();
        }
        long done = 0;
        Pass pass = null;
        begin = System.nanoTime();
        while (pass == null || (System.nanoTime() - begin) / 1e9 < seconds) {
            pass = work.pass();
            done += pass.done;
        }
        return Json.object("rate", done / ((System.nanoTime() - begin) / 1e9), "done", pass.done, "sum", pass.sum);
    }

    /** Pull all messages; with `decoded` as messages with bodies, as a client makes them. The sum is of bytes, of bodies or records. */
    private Pass getAll(int most, boolean decoded) {
        long messages = 0;
        long bytes = 0;
        for (ConsumeQueueInterface queue : store.queues()) {
            long end = queue.getMaxOffsetInQueue();
            for (long offset = queue.getMinOffsetInQueue(); offset < end; ) {
                GetMessageResult result = rocketmq.getMessage("g", queue.getTopic(), queue.getQueueId(), offset, most, null);
                if (result.getStatus() != GetMessageStatus.FOUND) {
                    throw new IllegalStateException(result.getStatus() + " at " + offset + " of " + queue.getTopic());
                }
                messages += result.getMessageCount();
                if (decoded) {
                    for (ByteBuffer record : result.getMessageBufferList()) {
                        bytes += MessageDecoder.decode(record, true).getBody().length;
                    }
                } else {
                    bytes += result.getBufferTotalSize();
                }
                offset = result.getNextBeginOffset();
                result.release();
            }
        }
        return new Pass(messages, bytes);
    }

    private Pass askTimes(List<JSONArray> questions) {
        long sum = 0;
        for (JSONArray asked : questions) {
            sum += rocketmq.getOffsetInQueueByTime(asked.getString(0), asked.getIntValue(1), asked.getLongValue(2),
                BoundaryType.LOWER);
        }
        return new Pass(questions.size(), sum);
    }

    /**
     * RocketMQ answers by hash, and a question now and then also finds the message of another key. `exact` counts only messages
     * that have the key; it is what both sides are compared by, outside the clock.
     */
    private Pass askKeys(List<JSONArray> questions, boolean exact) {
        long found = 0;
        for (JSONArray asked : questions) {
            QueryMessageResult result = rocketmq.queryMessage(asked.getString(0), asked.getString(1), KEY_MESSAGES_MAX, 0,
                Long.MAX_VALUE);
            found += exact ? result.getMessageBufferList().stream().filter(record -> has(asked.getString(1), record)).count()
                : result.getMessageMapedList().size();
            result.release();
        }
        return new Pass(questions.size(), found);
    }

    private static boolean has(String uniqueKey, ByteBuffer record) {
        return uniqueKey.equals(MessageDecoder.decode(record.duplicate(), false)
            .getProperty(MessageConst.PROPERTY_UNIQ_CLIENT_MESSAGE_ID_KEYIDX));
    }
}
