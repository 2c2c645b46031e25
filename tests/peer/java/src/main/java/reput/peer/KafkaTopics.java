package reput.peer;

import java.io.IOException;
import java.nio.charset.StandardCharsets;
import java.util.Optional;
import java.util.Properties;
import kafka.log.LogManager;
import kafka.server.KafkaConfig;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.Uuid;
import org.apache.kafka.common.compress.Compression;
import org.apache.kafka.common.header.Header;
import org.apache.kafka.common.header.internals.RecordHeader;
import org.apache.kafka.common.record.internal.MemoryRecords;
import org.apache.kafka.common.record.internal.SimpleRecord;
import org.apache.kafka.common.utils.Time;
import org.apache.kafka.server.util.KafkaScheduler;
import org.apache.kafka.storage.internals.log.LogDirFailureChannel;
import org.apache.kafka.storage.internals.log.UnifiedLog;
import org.apache.kafka.storage.log.metrics.BrokerTopicStats;
import scala.Option;

/**
 * Kafka's log layer in the comparison by topics: a LogManager as a broker has it, and a log for each queue. A record has the
 * keys of a message as its key, its tags and unique key as headers.
 */
public final class KafkaTopics extends TopicsTurn {
    private static final int LEADER_EPOCH = 0;

    private final Properties settings = new Properties();
    private final UnifiedLog[] logs;
    private final Uuid[] topicIds;
    private LogManager manager;

    private KafkaTopics(Args args) {
        super(args.number("queues", 64));
        logs = new UnifiedLog[queues];
        topicIds = new Uuid[topics.length];
        settings.setProperty("node.id", "1");
        settings.setProperty("process.roles", "broker,controller");
        settings.setProperty("listeners", "CONTROLLER://127.0.0.1:9093,PLAINTEXT://127.0.0.1:9092");
        settings.setProperty("controller.listener.names", "CONTROLLER");
        settings.setProperty("controller.quorum.voters", "1@127.0.0.1:9093");
        settings.setProperty("log.dirs", args.position(0, "STORE"));
        for (String assignment : args.all("set")) {
            String[] halves = assignment.split("=", 2);
            settings.setProperty(halves[0], halves[1]);
        }
    }

    public static void main(String[] words) {
        main(() -> new KafkaTopics(new Args(words)));
    }

    @Override
    void openStore() {
        KafkaConfig config = KafkaConfig.fromProps(settings);
        KafkaScheduler scheduler = new KafkaScheduler(config.backgroundThreads());
        scheduler.startup();
        manager = LogManager.apply(config, new scala.collection.mutable.ArrayBuffer<>(), resource -> new Properties(),
            scheduler, Time.SYSTEM, new BrokerTopicStats(), new LogDirFailureChannel(1));
        manager.startup(scala.collection.immutable.Set$.MODULE$.<String>empty(), log -> false);
        for (int i = 0; i < topics.length; i++) {
            topicIds[i] = Uuid.randomUuid();
        }
    }

    private UnifiedLog log(int queue) {
        if (logs[queue] == null) {
            int topic = queue / QUEUES_PER_TOPIC;
            TopicPartition partition = new TopicPartition(topics[topic], queue % QUEUES_PER_TOPIC);
            logs[queue] = manager.getOrCreateLog(partition, true, false, Optional.of(topicIds[topic]), Option.empty());
        }
        return logs[queue];
    }

    @Override
    void put(int queue, Given given) throws IOException {
        append(queue, MemoryRecords.withRecords(Compression.NONE, record(given)));
    }

    @Override
    void put(int queue, Given[] given) throws IOException {
        SimpleRecord[] records = new SimpleRecord[given.length];
        for (int i = 0; i < records.length; i++) {
            records[i] = record(given[i]);
        }
        append(queue, MemoryRecords.withRecords(Compression.NONE, records));
    }

    /** As a leader without followers does it: the records are visible at once. */
    private void append(int queue, MemoryRecords records) throws IOException {
        UnifiedLog log = log(queue);
        log.appendAsLeader(records, LEADER_EPOCH);
        log.maybeIncrementHighWatermark(log.logEndOffsetMetadata());
    }

    private static SimpleRecord record(Given given) {
        Header[] headers = {
            new RecordHeader("TAGS", given.tags().getBytes(StandardCharsets.UTF_8)),
            new RecordHeader("UNIQ_KEY", given.uniqueKey().getBytes(StandardCharsets.UTF_8)),
        };
        byte[] key = given.keys().getBytes(StandardCharsets.UTF_8);
        return new SimpleRecord(System.currentTimeMillis(), key, given.body(), headers);
    }

    @Override
    long stored() {
        long stored = 0;
        for (UnifiedLog log : logs) {
            stored += log.logEndOffset();
        }
        return stored;
    }
}
