package reput.peer;

import com.alibaba.fastjson2.JSON;
import com.alibaba.fastjson2.JSONArray;
import com.alibaba.fastjson2.JSONObject;
import java.io.BufferedReader;
import java.io.IOException;
import java.io.InputStream;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.nio.ByteBuffer;
import java.nio.channels.FileChannel;
import java.nio.charset.StandardCharsets;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import org.apache.rocketmq.broker.filter.MessageEvaluationContext;
import org.apache.rocketmq.common.message.MessageDecoder;
import org.apache.rocketmq.filter.expression.Expression;
import org.apache.rocketmq.filter.expression.MQFilterException;
import org.apache.rocketmq.filter.parser.SelectorParser;
import org.apache.rocketmq.filter.util.BloomFilter;
import org.apache.rocketmq.filter.util.BloomFilterData;

/** RocketMQ's SQL92 filters and its Bloom filter, as its broker uses them. */
final class Filtering {
    private Filtering() {
    }

    /** Per line {"sql": text, "sets": [properties...]}: {"answers": [true, false, null or "error"...]} or {"refused": why}. */
    static void sql(InputStream in, PrintStream out) throws IOException {
        for (String line : lines(in)) {
            JSONObject asked = JSON.parseObject(line);
            Expression filter;
            try {
                filter = SelectorParser.parse(asked.getString("sql"));
            } catch (MQFilterException refusal) {
                out.println(Json.text(Json.object("refused", String.valueOf(refusal.getCause()))));
                continue;
            }
            List<Object> answers = new ArrayList<>();
            for (Object set : asked.getJSONArray("sets")) {
                answers.add(answer(filter, properties((JSONObject) set)));
            }
            out.println(Json.text(Json.object("answers", answers)));
        }
    }

    private static Map<String, String> properties(JSONObject set) {
        Map<String, String> properties = new HashMap<>();
        set.forEach((name, value) -> properties.put(name, (String) value));
        return properties;
    }

    private static Object answer(Expression filter, Map<String, String> properties) {
        try {
            return filter.evaluate(new MessageEvaluationContext(properties));
        } catch (Exception thrown) {
            return "error";
        }
    }

    /** Per line [error rate, expected number, text]: [k, m, bit positions]. */
    static void bloom(InputStream in, PrintStream out) throws IOException {
        for (String line : lines(in)) {
            JSONArray asked = JSON.parseArray(line);
            BloomFilter filter = BloomFilter.createByFn(asked.getIntValue(0), asked.getIntValue(1));
            BloomFilterData data = filter.generate(asked.getString(2));
            List<Object> positions = new ArrayList<>();
            for (int position : data.getBitPos()) {
                positions.add(position);
            }
            out.println(Json.text(Json.object("k", filter.getK(), "m", filter.getM(), "positions", positions)));
        }
    }

    /**
     * A filter over all records of one log file, as a pull does it at the log: properties decoded from the mapped record, and
     * asked. One round to warm up, then the best of the rounds that are timed.
     */
    static Map<String, Object> bench(Args args) throws Exception {
        Path file = Path.of(args.position(1, "LOG FILE"));
        Expression filter = SelectorParser.parse(args.position(2, "SQL"));
        try (FileChannel channel = FileChannel.open(file)) {
            ByteBuffer log = channel.map(FileChannel.MapMode.READ_ONLY, 0, channel.size());
            List<ByteBuffer> records = records(log);
            long matched = round(records, filter);
            long best = Long.MAX_VALUE;
            for (int n = 0; n < args.number("rounds", 5); n++) {
                long begin = System.nanoTime();
                matched = round(records, filter);
                best = Math.min(best, System.nanoTime() - begin);
            }
            return Json.object("messages", records.size(), "matched", matched, "nanoseconds", best);
        }
    }

    private static List<ByteBuffer> records(ByteBuffer log) {
        List<ByteBuffer> records = new ArrayList<>();
        int position = 0;
        while (position + 8 <= log.limit()) {
            int size = log.getInt(position);
            int magic = log.getInt(position + 4);
            if (size <= 0 || (magic != MessageDecoder.MESSAGE_MAGIC_CODE && magic != MessageDecoder.MESSAGE_MAGIC_CODE_V2)) {
                break;
            }
            records.add(log.slice(position, size));
            position += size;
        }
        return records;
    }

    private static long round(List<ByteBuffer> records, Expression filter) throws Exception {
        long matched = 0;
        for (ByteBuffer record : records) {
            Object truth = filter.evaluate(new MessageEvaluationContext(MessageDecoder.decodeProperties(record)));
            if (Boolean.TRUE.equals(truth)) {
                matched++;
            }
        }
        return matched;
    }

    private static List<String> lines(InputStream in) {
        return new BufferedReader(new InputStreamReader(in, StandardCharsets.UTF_8)).lines().toList();
    }
}
