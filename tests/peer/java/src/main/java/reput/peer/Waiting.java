package reput.peer;

import com.alibaba.fastjson2.JSON;
import com.alibaba.fastjson2.JSONObject;
import java.io.BufferedReader;
import java.io.IOException;
import java.io.InputStream;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.nio.charset.StandardCharsets;
import java.nio.file.Path;
import java.util.List;
import org.apache.rocketmq.broker.pop.PopConsumerRecord;
import org.apache.rocketmq.broker.pop.PopConsumerRocksdbStore;
import org.apache.rocketmq.common.message.MessageAccessor;
import org.apache.rocketmq.common.message.MessageExt;
import org.apache.rocketmq.store.config.MessageStoreConfig;
import org.apache.rocketmq.store.pop.AckMsg;
import org.apache.rocketmq.store.pop.BatchAckMsg;
import org.apache.rocketmq.store.pop.PopCheckPoint;
import org.apache.rocketmq.store.rocksdb.MessageRocksDBStorage;
import org.apache.rocketmq.store.timer.TimerCheckpoint;
import org.apache.rocketmq.store.timer.TimerMessageStore;
import org.apache.rocketmq.store.timer.TimerMetrics;
import org.apache.rocketmq.store.timer.rocksdb.TimerRocksDBRecord;
import org.apache.rocketmq.store.transaction.TransRocksDBRecord;

/** Work that waits, written into a store with RocketMQ's own classes: a line of JSON on stdin each. */
final class Waiting {
    private Waiting() {
    }

    static void write(Args args, InputStream in, PrintStream out) throws Exception {
        Path store = Path.of(args.position(1, "store"));
        MessageStoreConfig config = new MessageStoreConfig();
        config.setStorePathRootDir(store.toString());
        config.setMappedFileSizeTimerLog(args.number("timerlog-file", 5220));
        config.setTimerRollWindowSlot(args.number("roll-window", 3600));
        MessageRocksDBStorage database = new MessageRocksDBStorage(config);
        PopConsumerRocksdbStore pops = new PopConsumerRocksdbStore(store.resolve("kvStore").toString(), 1 << 20, 1 << 20);
        pops.start();
        Wheel wheel = new Wheel(config, new TimerCheckpoint(store.resolve("config/timercheck").toString()));
        BufferedReader lines = new BufferedReader(new InputStreamReader(in, StandardCharsets.UTF_8));
        for (String line = lines.readLine(); line != null; line = lines.readLine()) {
            JSONObject asked = JSON.parseObject(line);
            String kind = asked.getString("kind");
            out.println(Json.text(Json.object("body", switch (kind) {
                case "wheel" -> wheel.take(asked);
                case "timer" -> timer(database, asked);
                case "timeline" -> timeline(database, asked);
                case "half" -> half(database, asked);
                case "pop" -> pop(pops, asked);
                default -> body(kind, asked);
            })));
        }
        wheel.end();
        pops.shutdown();
        database.shutdown();
    }

    private static String timer(MessageRocksDBStorage database, JSONObject asked) {
        TimerRocksDBRecord record = new TimerRocksDBRecord(asked.getLongValue("due"), asked.getString("key"),
            asked.getLongValue("offset"), asked.getIntValue("size"), 0, null);
        record.setActionFlag(asked.getBooleanValue("deleted")
            ? TimerRocksDBRecord.TIMER_ROCKSDB_DELETE : TimerRocksDBRecord.TIMER_ROCKSDB_PUT);
        database.writeRecordsForTimer(MessageRocksDBStorage.TIMER_COLUMN_FAMILY, List.of(record));
        return null;
    }

    private static String timeline(MessageRocksDBStorage database, JSONObject asked) {
        database.writeCheckPointForTimer(MessageRocksDBStorage.TIMER_COLUMN_FAMILY,
            MessageRocksDBStorage.TIMELINE_CHECK_POINT, asked.getLongValue("due"));
        database.writeCheckPointForTimer(MessageRocksDBStorage.TIMER_COLUMN_FAMILY,
            MessageRocksDBStorage.SYS_TOPIC_SCAN_OFFSET_CHECK_POINT, asked.getLongValue("queueOffset"));
        return null;
    }

    private static String half(MessageRocksDBStorage database, JSONObject asked) {
        String topic = asked.getString("topic");
        String key = asked.getString("key");
        long offset = asked.getLongValue("offset");
        TransRocksDBRecord record = asked.getBooleanValue("ended") ? new TransRocksDBRecord(offset, topic, key, true)
            : new TransRocksDBRecord(offset, topic, key, asked.getIntValue("size"), asked.getIntValue("checks"));
        database.writeRecordsForTrans(MessageRocksDBStorage.TRANS_COLUMN_FAMILY, List.of(record));
        return null;
    }

    private static String pop(PopConsumerRocksdbStore pops, JSONObject asked) {
        PopConsumerRecord record = new PopConsumerRecord(asked.getLongValue("popTime"), asked.getString("group"),
            asked.getString("topic"), asked.getIntValue("queue"), 0, asked.getLongValue("invisible"),
            asked.getLongValue("offset"), "attempt");
        record.setAttemptTimes(asked.getIntValue("attempts"));
        if (asked.getBooleanValue("acked")) {
            pops.deleteRecords(List.of(record));
        } else {
            pops.writeRecords(List.of(record));
        }
        return null;
    }

    /** The body of a checkpoint or an ack, as a broker puts it. */
    private static String body(String kind, JSONObject asked) {
        List<Long> offsets = asked.getList("offsets", Long.class);
        if (kind.equals("ck")) {
            PopCheckPoint checkpoint = new PopCheckPoint();
            checkpoint.setBitMap(0);
            checkpoint.setNum((byte) offsets.size());
            checkpoint.setPopTime(asked.getLongValue("popTime"));
            checkpoint.setInvisibleTime(asked.getLongValue("invisible"));
            checkpoint.setStartOffset(asked.getLongValue("start"));
            checkpoint.setCId(asked.getString("group"));
            checkpoint.setTopic(asked.getString("topic"));
            checkpoint.setQueueId(asked.getIntValue("queue"));
            checkpoint.setBrokerName("broker-a");
            for (long offset : offsets) {
                checkpoint.addDiff((int) (offset - checkpoint.getStartOffset()));
            }
            return JSON.toJSONString(checkpoint);
        }
        BatchAckMsg batch = new BatchAckMsg();
        AckMsg ack = kind.equals("bAck") ? batch : new AckMsg();
        ack.setAckOffset(offsets.get(0));
        ack.setStartOffset(asked.getLongValue("start"));
        ack.setConsumerGroup(asked.getString("group"));
        ack.setTopic(asked.getString("topic"));
        ack.setQueueId(asked.getIntValue("queue"));
        ack.setPopTime(asked.getLongValue("popTime"));
        ack.setBrokerName("broker-a");
        batch.setAckOffsetList(offsets);
        return JSON.toJSONString(ack);
    }

    /** The timer wheel without a store: messages are given to it one by one. */
    private static final class Wheel extends TimerMessageStore {
        private final TimerCheckpoint checkpoint;
        private int taken;

        Wheel(MessageStoreConfig config, TimerCheckpoint checkpoint) throws IOException {
            super(null, config, checkpoint, new TimerMetrics(config.getStorePathRootDir() + "/config/timermetrics"), null);
            this.checkpoint = checkpoint;
        }

        String take(JSONObject asked) {
            MessageExt message = new MessageExt();
            MessageAccessor.putProperty(message, "REAL_TOPIC", asked.getString("topic"));
            if (asked.containsKey("deletes")) {
                MessageAccessor.putProperty(message, TIMER_DELETE_UNIQUE_KEY, asked.getString("deletes"));
            }
            currWriteTimeMs = asked.getLongValue("written");
            taken++;
            return String.valueOf(doEnqueue(
                asked.getLongValue("offset"), asked.getIntValue("size"), asked.getLongValue("due"), message, true));
        }

        void end() {
            getTimerWheel().flush();
            checkpoint.setLastReadTimeMs(currWriteTimeMs);
            checkpoint.setLastTimerQueueOffset(taken);
            checkpoint.setMasterTimerQueueOffset(taken);
            getTimerLog().shutdown();
            checkpoint.shutdown();
        }
    }
}
