package reput.peer;

import java.io.File;
import java.lang.reflect.Field;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.Collection;
import java.util.Comparator;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import java.util.Random;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.ConcurrentMap;
import org.apache.rocketmq.common.BrokerConfig;
import org.apache.rocketmq.common.MixAll;
import org.apache.rocketmq.common.TopicConfig;
import org.apache.rocketmq.common.attribute.CQType;
import org.apache.rocketmq.store.CommitLogDispatcher;
import org.apache.rocketmq.store.DefaultMessageStore;
import org.apache.rocketmq.store.RocksDBMessageStore;
import org.apache.rocketmq.store.config.FlushDiskType;
import org.apache.rocketmq.store.config.MessageStoreConfig;
import org.apache.rocketmq.store.index.IndexFile;
import org.apache.rocketmq.store.index.IndexService;
import org.apache.rocketmq.store.queue.CombineConsumeQueueStore;
import org.apache.rocketmq.store.queue.ConsumeQueueInterface;
import org.apache.rocketmq.store.queue.RocksDBConsumeQueueStore;
import org.apache.rocketmq.store.stats.BrokerStatsManager;

/** RocketMQ's message store, made from our options, with the few things the commands need from it. */
final class Store {
    private static final int BITMAP_BYTES = 14;

    final Path root;
    final DefaultMessageStore rocketmq;

    /** Queues to know from the start: in a RocksDB RocketMQ knows none before it is asked for. */
    private final List<String> named;

    Store(Path root, Args args) throws Exception {
        this.root = root;
        named = args.all("queue");
        MessageStoreConfig config = config(root, args);
        BrokerConfig broker = new BrokerConfig();
        ConcurrentMap<String, TopicConfig> topics = topics(args);
        BrokerStatsManager stats = new BrokerStatsManager("reput-peer", false);
        rocketmq = config.isEnableRocksDBStore()
            ? new RocksDBMessageStore(config, stats, null, broker, topics)
            : new DefaultMessageStore(config, stats, null, broker, topics);
        if (args.number("calc-bitmaps", 0) != 0) {
            rocketmq.getDispatcherList().addFirst(Filters.dispatcher(Filters.load(root.resolve("config/consumerFilter.json"))));
        }
        if (!args.all("random-bitmaps").isEmpty()) {
            rocketmq.getDispatcherList().addFirst(randomBitmaps(new Random(args.number("random-bitmaps", 0))));
        }
    }

    /** Gives two of three messages a random bitmap, of the length that a broker's default Bloom filter has. */
    private static CommitLogDispatcher randomBitmaps(Random random) {
        return request -> {
            if (random.nextInt(3) > 0) {
                byte[] bitmap = new byte[BITMAP_BYTES];
                random.nextBytes(bitmap);
                request.setBitMap(bitmap);
            }
        };
    }

    /**
     * RocketMQ's defaults, but: no replication port, no timer wheel, no clean-up by age or by disk use (a store unpacked
     * years later, or on a full disk, must keep its files), and every answer counted as read from memory.
     */
    private static MessageStoreConfig config(Path root, Args args) {
        MessageStoreConfig config = new MessageStoreConfig();
        config.setStorePathRootDir(root.toString());
        config.setStorePathCommitLog(root.resolve("commitlog").toString());
        config.setHaListenPort(0);
        config.setTimerWheelEnable(false);
        config.setFlushDiskType(FlushDiskType.ASYNC_FLUSH);
        config.setFileReservedTime(24 * 365 * 100);
        config.setCleanFileForciblyEnable(false);
        config.setDiskMaxUsedSpaceRatio(95);
        config.setAccessMessageInMemoryMaxRatio(100);
        config.setMappedFileSizeCommitLog(args.number("commitlog-file", config.getMappedFileSizeCommitLog()));
        config.setMappedFileSizeConsumeQueue(args.number("cq-file", config.getMappedFileSizeConsumeQueue()));
        config.setMaxHashSlotNum(args.number("index-slots", config.getMaxHashSlotNum()));
        config.setMaxIndexNum(args.number("index-items", config.getMaxIndexNum()));
        MixAll.properties2Object(assignments(args), config);
        return config;
    }

    private static Properties assignments(Args args) {
        Properties properties = new Properties();
        for (String assignment : args.all("set")) {
            String[] halves = assignment.split("=", 2);
            properties.setProperty(halves[0], halves[1]);
        }
        return properties;
    }

    private static ConcurrentMap<String, TopicConfig> topics(Args args) {
        ConcurrentMap<String, TopicConfig> topics = new ConcurrentHashMap<>();
        for (String topic : args.all("batch-topic")) {
            TopicConfig config = new TopicConfig(topic);
            config.setAttributes(Map.of("queue.type", CQType.BatchCQ.toString()));
            topics.put(topic, config);
        }
        for (String topic : args.all("lite-topic")) {
            TopicConfig config = new TopicConfig(topic);
            config.setAttributes(Map.of("message.type", "LITE"));
            topics.put(topic, config);
        }
        return topics;
    }

    /** Loads (which recovers), starts, and waits until every record is dispatched. */
    void open() throws Exception {
        if (!rocketmq.load()) {
            throw new IllegalStateException("RocketMQ refuses to load " + root);
        }
        rocketmq.start();
        awaitDispatch();
        for (String queue : named) {
            int at = queue.lastIndexOf('@');
            rocketmq.getQueueStore().findOrCreateConsumeQueue(queue.substring(0, at),
                Integer.parseInt(queue.substring(at + 1)));
        }
    }

    /** Waits until the queues have all that the log has; a RocksDB gets it from a thread of its own. */
    void awaitDispatch() throws Exception {
        while (rocketmq.dispatchBehindBytes() > 0) {
            Thread.sleep(5);
        }
        Object queues = rocketmq.getQueueStore();
        if (queues instanceof CombineConsumeQueueStore) {
            queues = field(queues, "rocksDBConsumeQueueStore");
        }
        if (queues instanceof RocksDBConsumeQueueStore) {
            Object commits = field(queues, "groupCommitService");
            Collection<?> waiting = (Collection<?>) field(commits, "buffer");
            Collection<?> taken = (Collection<?>) field(commits, "requests");
            // A request is in neither for a moment: on its way from one to the other.
            for (int quiet = 0; quiet < 3; quiet++) {
                if (!waiting.isEmpty() || !taken.isEmpty()) {
                    quiet = -1;
                }
                Thread.sleep(2);
            }
        }
    }

    private static Object field(Object owner, String name) throws ReflectiveOperationException {
        Field field = owner.getClass().getDeclaredField(name);
        field.setAccessible(true);
        return field.get(owner);
    }

    /** RocketMQ's orderly shutdown; fails where RocketMQ keeps its mark of an unclean end. */
    void close() {
        // It waits 3 s for scheduled work; none is under way here, and an interrupt ends that wait and nothing else.
        Thread.currentThread().interrupt();
        rocketmq.shutdown();
        if (new File(root.toFile(), "abort").exists()) {
            throw new IllegalStateException("RocketMQ did not shut down cleanly: " + root);
        }
    }

    /** Every queue that the store knows, by topic name, then number. */
    List<ConsumeQueueInterface> queues() {
        List<ConsumeQueueInterface> queues = new ArrayList<>();
        for (ConcurrentMap<Integer, ConsumeQueueInterface> ofTopic
            : rocketmq.getQueueStore().getConsumeQueueTable().values()) {
            queues.addAll(ofTopic.values());
        }
        queues.sort(Comparator.comparing(ConsumeQueueInterface::getTopic)
            .thenComparing(ConsumeQueueInterface::getQueueId));
        return queues;
    }

    /** Forces queues, index files and checkpoint to the disk. RocketMQ's own flush calls write one file of a queue each. */
    void sync() throws Exception {
        for (ConsumeQueueInterface queue : queues()) {
            while (!queue.flush(0)) {
                // true means that nothing moved, so false asks for one more file
            }
        }
        for (IndexFile file : indexFiles()) {
            file.flush();
        }
        rocketmq.getStoreCheckpoint().flush();
    }

    @SuppressWarnings("unchecked")
    private List<IndexFile> indexFiles() throws ReflectiveOperationException {
        Field service = DefaultMessageStore.class.getDeclaredField("indexService");
        service.setAccessible(true);
        Field files = IndexService.class.getDeclaredField("indexFileList");
        files.setAccessible(true);
        return (List<IndexFile>) files.get(service.get(rocketmq));
    }
}
