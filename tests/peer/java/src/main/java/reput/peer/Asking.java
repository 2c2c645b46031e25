package reput.peer;

import com.alibaba.fastjson2.JSON;
import com.alibaba.fastjson2.JSONArray;
import com.alibaba.fastjson2.JSONObject;
import java.io.BufferedReader;
import java.io.IOException;
import java.io.InputStream;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.HexFormat;
import java.util.List;
import java.util.Map;
import java.util.zip.GZIPInputStream;
import org.apache.rocketmq.broker.filter.ConsumerFilterData;
import org.apache.rocketmq.broker.filter.ConsumerFilterManager;
import org.apache.rocketmq.broker.filter.ExpressionMessageFilter;
import org.apache.rocketmq.common.BoundaryType;
import org.apache.rocketmq.common.filter.ExpressionType;
import org.apache.rocketmq.remoting.protocol.filter.FilterAPI;
import org.apache.rocketmq.store.ConsumeQueueExt.CqExtUnit;
import org.apache.rocketmq.store.DefaultMessageFilter;
import org.apache.rocketmq.store.DefaultMessageStore;
import org.apache.rocketmq.store.GetMessageResult;
import org.apache.rocketmq.store.MessageFilter;
import org.apache.rocketmq.store.QueryMessageResult;
import org.apache.rocketmq.store.SelectMappedBufferResult;
import org.apache.rocketmq.store.queue.ConsumeQueueInterface;
import org.apache.rocketmq.store.queue.CqUnit;
import org.apache.rocketmq.store.queue.ReferredIterator;

/** Answers questions about a store; a question is an answer's line, of which only the first member is read. */
final class Asking {
    private final DefaultMessageStore store;

    private Asking(DefaultMessageStore store) {
        this.store = store;
    }

    static void ask(Args args, PrintStream out) throws Exception {
        Path questions = Path.of(args.position(2, "QUESTIONS"));
        Store store = new Store(Path.of(args.position(1, "STORE")), args);
        store.open();
        Asking asking = new Asking(store.rocketmq);
        try (BufferedReader lines = reader(questions)) {
            for (String line = lines.readLine(); line != null; line = lines.readLine()) {
                out.println(Json.text(asking.answer(JSON.parseObject(line))));
            }
        }
        store.close();
    }

    static void dump(Args args, PrintStream out) throws Exception {
        Store store = new Store(Path.of(args.position(1, "STORE")), args);
        store.open();
        Asking asking = new Asking(store.rocketmq);
        out.println(Json.text(asking.log()));
        for (ConsumeQueueInterface queue : store.queues()) {
            out.println(Json.text(line(queue, entries(queue))));
        }
        store.close();
    }

    private static BufferedReader reader(Path path) throws IOException {
        InputStream in = Files.newInputStream(path);
        InputStream plain = path.toString().endsWith(".gz") ? new GZIPInputStream(in) : in;
        return new BufferedReader(new InputStreamReader(plain, StandardCharsets.UTF_8));
    }

    private Map<String, Object> answer(JSONObject question) throws Exception {
        if (question.containsKey("log")) {
            return log();
        }
        if (question.containsKey("queue")) {
            JSONArray asked = question.getJSONArray("queue");
            ConsumeQueueInterface queue = store.findConsumeQueue(asked.getString(0), asked.getIntValue(1));
            return line(queue, entriesOfOneFile(queue, queue.getMinOffsetInQueue()));
        }
        if (question.containsKey("get")) {
            return get(question.getJSONArray("get"));
        }
        if (question.containsKey("time")) {
            return time(question.getJSONArray("time"));
        }
        if (question.containsKey("key")) {
            return key(question.getJSONArray("key"));
        }
        throw new IllegalArgumentException("no such question: " + question);
    }

    private Map<String, Object> log() {
        return Json.object("log", List.of(store.getMinPhyOffset(), store.getMaxPhyOffset()));
    }

    private static Map<String, Object> line(ConsumeQueueInterface queue, List<List<Object>> entries) {
        return Json.object("queue", List.of(queue.getTopic(), queue.getQueueId()), "min", queue.getMinOffsetInQueue(),
            "max", queue.getMaxOffsetInQueue(), "type", queue.getCQType(), "entries", entries);
    }

    private static List<List<Object>> entries(ConsumeQueueInterface queue) {
        List<List<Object>> entries = new ArrayList<>();
        for (long next = queue.getMinOffsetInQueue(); next < queue.getMaxOffsetInQueue(); ) {
            List<List<Object>> more = entriesOfOneFile(queue, next);
            if (more.isEmpty()) {
                throw new IllegalStateException("no entry at " + next + " of " + queue.getTopic());
            }
            entries.addAll(more);
            List<Object> last = more.get(more.size() - 1);
            next = (Long) last.get(0) + (Short) last.get(4);
        }
        return entries;
    }

    /** What one iterator of RocketMQ gives: the rest of one queue file. The golden answers hold just that from the minimum. */
    private static List<List<Object>> entriesOfOneFile(ConsumeQueueInterface queue, long offset) {
        List<List<Object>> entries = new ArrayList<>();
        ReferredIterator<CqUnit> units = queue.iterateFrom(offset);
        while (units != null && units.hasNext()) {
            entries.add(entry(units.next()));
        }
        if (units != null) {
            units.release();
        }
        return entries;
    }

    private static List<Object> entry(CqUnit unit) {
        List<Object> entry = new ArrayList<>(List.of(unit.getQueueOffset(), unit.getPos(), unit.getSize(),
            unit.getTagsCode(), unit.getBatchNum()));
        CqExtUnit ext = unit.getCqExtUnit();
        if (ext != null) {
            entry.set(3, ext.getTagsCode());
            entry.add(ext.getFilterBitMap() == null ? "" : HexFormat.of().formatHex(ext.getFilterBitMap()));
            entry.add(ext.getMsgStoreTime());
        }
        return entry;
    }

    private Map<String, Object> get(JSONArray asked) throws Exception {
        String topic = asked.getString(0);
        String tags = asked.getString(4);
        MessageFilter filter = filter(topic, tags);
        GetMessageResult result = store.getMessage("g", topic, asked.getIntValue(1), asked.getLongValue(2),
            asked.getIntValue(3), filter);
        Map<String, Object> answer = Json.object("get", asked, "status", result.getStatus(), "next", result.getNextBeginOffset(),
            "min", result.getMinOffset(), "max", result.getMaxOffset(), "phys", physicalOffsets(result.getMessageMapedList()));
        result.release();
        return answer;
    }

    /** A subscription by tags, or behind "sql:" by SQL92: as a broker asks it, with the filters that are registered. */
    private MessageFilter filter(String topic, String subscription) throws Exception {
        if (subscription == null) {
            return null;
        }
        if (!subscription.startsWith("sql:")) {
            return new DefaultMessageFilter(FilterAPI.buildSubscriptionData(topic, subscription));
        }
        String sql = subscription.substring("sql:".length());
        ConsumerFilterManager manager =
            Filters.load(Path.of(store.getMessageStoreConfig().getStorePathRootDir(), "config", "consumerFilter.json"));
        ConsumerFilterData data = manager.get(topic, "g");
        if (data == null || !data.getExpression().equals(sql)) {
            data = ConsumerFilterManager.build(topic, "g", sql, ExpressionType.SQL92, 1);
        }
        return new ExpressionMessageFilter(FilterAPI.build(topic, sql, ExpressionType.SQL92), data, manager);
    }

    private Map<String, Object> time(JSONArray asked) {
        String topic = asked.getString(0);
        int queueId = asked.getIntValue(1);
        long timestamp = asked.getLongValue(2);
        return Json.object("time", asked,
            "lower", store.getOffsetInQueueByTime(topic, queueId, timestamp, BoundaryType.LOWER),
            "upper", store.getOffsetInQueueByTime(topic, queueId, timestamp, BoundaryType.UPPER));
    }

    private Map<String, Object> key(JSONArray asked) {
        QueryMessageResult result = store.queryMessage(asked.getString(0), asked.getString(1), asked.getIntValue(2),
            asked.getLongValue(3), asked.getLongValue(4));
        Map<String, Object> answer = Json.object("key", asked, "phys", physicalOffsets(result.getMessageMapedList()));
        result.release();
        return answer;
    }

    private static List<Object> physicalOffsets(List<SelectMappedBufferResult> records) {
        List<Object> offsets = new ArrayList<>();
        for (SelectMappedBufferResult record : records) {
            offsets.add(record.getStartOffset());
        }
        return offsets;
    }
}
