package reput.peer;

import com.alibaba.fastjson2.JSON;
import com.alibaba.fastjson2.JSONArray;
import com.alibaba.fastjson2.JSONObject;
import java.io.BufferedReader;
import java.io.InputStream;
import java.io.InputStreamReader;
import java.io.OutputStream;
import java.io.PrintStream;
import java.net.InetSocketAddress;
import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.Base64;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import org.apache.rocketmq.common.message.MessageAccessor;
import org.apache.rocketmq.common.message.MessageExt;
import org.apache.rocketmq.store.GetMessageResult;
import org.apache.rocketmq.store.MessageStore;
import org.apache.rocketmq.store.PutMessageResult;
import org.apache.rocketmq.store.QueryMessageResult;
import org.apache.rocketmq.store.config.MessageStoreConfig;

/**
 * A turn of RocketMQ at a store that reput writes, too: it opens the store, and does what JSON lines on stdin say, a line
 * of answer for each, until stdin ends or somebody kills it. Its first line says that the store is open.
 *
 * <pre>
 * {"topic": T, "queue": Q, "body": TEXT, "flag": F, "sysFlag": S, "properties": {...}}   put; or "bodyBase64"
 * {"await": "dispatch"}                                  wait until queues and index have all
 * {"log": []}  {"queue": [T, Q]}  {"get": [T, Q, OFFSET, MAX]}  {"key": [T, KEY, MAX]}  {"time": [T, Q, MS]}   questions
 * </pre>
 *
 * What differs between versions of RocketMQ is in its subclasses; this compiles with each of them.
 */
abstract class Turn {
    private static final InetSocketAddress HOST = new InetSocketAddress("127.0.0.1", 10911);
    private static final int PHYSICAL_OFFSET_AT = 28;

    /** Opens the store; returns when every record is dispatched. */
    abstract MessageStore open() throws Exception;

    /** Puts one message, which {@link #fill} describes. */
    abstract PutMessageResult put(MessageStore store, JSONObject asked) throws Exception;

    abstract void close() throws Exception;

    /** The first line: the store is open. */
    Map<String, Object> opened() {
        return Json.object("open", true);
    }

    /** Runs a turn in a process of its own; RocketMQ's own output and files under the user's home go elsewhere. */
    static void main(Turn turn) throws Exception {
        PrintStream out = new PrintStream(System.out, false, StandardCharsets.UTF_8);
        System.setOut(new PrintStream(OutputStream.nullOutputStream()));
        int status = 0;
        try {
            turn.run(System.in, out);
        } catch (Throwable problem) {
            problem.printStackTrace();
            status = 1;
        }
        out.flush();
        System.exit(status);
    }

    void run(InputStream in, PrintStream out) throws Exception {
        MessageStore store = open();
        awaitDispatch(store);
        say(out, opened());
        try (BufferedReader lines = new BufferedReader(new InputStreamReader(in, StandardCharsets.UTF_8))) {
            for (String line = lines.readLine(); line != null; line = lines.readLine()) {
                say(out, answer(store, JSON.parseObject(line)));
            }
        }
        awaitDispatch(store);
        close();
        say(out, Json.object("closed", true));
    }

    private static void say(PrintStream out, Map<String, Object> answer) {
        out.println(Json.text(answer));
        out.flush();
    }

    /** Waits until queues and index have all. */
    void awaitDispatch(MessageStore store) throws Exception {
        while (store.dispatchBehindBytes() > 0) {
            Thread.sleep(5);
        }
    }

    /** Does what a line says. */
    Map<String, Object> answer(MessageStore store, JSONObject asked) throws Exception {
        if (asked.containsKey("topic")) {
            return placed(put(store, asked));
        }
        if (asked.containsKey("await")) {
            awaitDispatch(store);
            return Json.object("dispatched", true);
        }
        if (asked.containsKey("log")) {
            return Json.object("log", List.of(), "min", store.getMinPhyOffset(), "max", store.getMaxPhyOffset());
        }
        String kind = asked.keySet().iterator().next();
        JSONArray of = asked.getJSONArray(kind);
        String topic = of.getString(0);
        switch (kind) {
            case "queue":
                return Json.object(kind, of, "min", store.getMinOffsetInQueue(topic, of.getIntValue(1)),
                    "max", store.getMaxOffsetInQueue(topic, of.getIntValue(1)));
            case "get":
                return got(of, store.getMessage("g", topic, of.getIntValue(1), of.getLongValue(2), of.getIntValue(3), null));
            case "key":
                return found(of, store.queryMessage(topic, of.getString(1), of.getIntValue(2), 0, Long.MAX_VALUE));
            case "time":
                return Json.object(kind, of, "lower",
                    store.getOffsetInQueueByTime(topic, of.getIntValue(1), of.getLongValue(2)));
            default:
                throw new IllegalArgumentException("no such question: " + asked);
        }
    }

    private static Map<String, Object> placed(PutMessageResult result) {
        if (!result.isOk()) {
            return Json.object("status", result.getPutMessageStatus());
        }
        return Json.object("status", result.getPutMessageStatus(),
            "offset", result.getAppendMessageResult().getWroteOffset(),
            "queue_offset", result.getAppendMessageResult().getLogicsOffset());
    }

    private static Map<String, Object> got(JSONArray asked, GetMessageResult result) {
        Map<String, Object> answer = Json.object("get", asked, "status", result.getStatus(), "next",
            result.getNextBeginOffset(), "phys", physicalOffsets(result.getMessageBufferList()));
        result.release();
        return answer;
    }

    private static Map<String, Object> found(JSONArray asked, QueryMessageResult result) {
        Map<String, Object> answer = Json.object("key", asked, "phys", physicalOffsets(result.getMessageBufferList()));
        result.release();
        return answer;
    }

    /** The records' own places in the log. */
    private static List<Object> physicalOffsets(List<ByteBuffer> records) {
        List<Object> offsets = new ArrayList<>();
        for (ByteBuffer record : records) {
            offsets.add(record.getLong(record.position() + PHYSICAL_OFFSET_AT));
        }
        return offsets;
    }

    /** Gives a message what a line says of it. */
    static Map<String, String> fill(MessageExt message, JSONObject asked) {
        message.setTopic(asked.getString("topic"));
        message.setQueueId(asked.getIntValue("queue"));
        message.setBody(asked.containsKey("bodyBase64")
            ? Base64.getDecoder().decode(asked.getString("bodyBase64"))
            : asked.getString("body").getBytes(StandardCharsets.UTF_8));
        message.setFlag(asked.getIntValue("flag"));
        message.setSysFlag(asked.getIntValue("sysFlag"));
        message.setBornTimestamp(System.currentTimeMillis());
        message.setBornHost(HOST);
        message.setStoreHost(HOST);
        Map<String, String> properties = new HashMap<>();
        asked.getJSONObject("properties").forEach((name, value) -> properties.put(name, value.toString()));
        MessageAccessor.setProperties(message, properties);
        return properties;
    }

    /** Keeps a store whole for years, and out of the network: no deletion, no replication; then what `--set` says. */
    static Properties settings(Path root, MessageStoreConfig config, Args args) {
        config.setStorePathRootDir(root.toString());
        config.setStorePathCommitLog(root.resolve("commitlog").toString());
        config.setHaListenPort(0);
        config.setFileReservedTime(24 * 365 * 100);
        config.setCleanFileForciblyEnable(false);
        config.setDiskMaxUsedSpaceRatio(95);
        config.setAccessMessageInMemoryMaxRatio(100);
        Properties properties = new Properties();
        for (String assignment : args.all("set")) {
            String[] halves = assignment.split("=", 2);
            properties.setProperty(halves[0], halves[1]);
        }
        return properties;
    }
}
