package reput.peer;

import java.lang.reflect.Field;
import java.nio.file.Path;
import java.util.Map;
import java.util.TreeMap;
import java.util.concurrent.ConcurrentHashMap;
import org.apache.rocketmq.broker.BrokerController;
import org.apache.rocketmq.broker.config.v1.RocksDBConfigManager;
import org.apache.rocketmq.broker.config.v1.RocksDBConsumerOffsetManager;
import org.apache.rocketmq.broker.config.v1.RocksDBTopicConfigManager;
import org.apache.rocketmq.broker.config.v2.ConfigStorage;
import org.apache.rocketmq.broker.config.v2.ConsumerOffsetManagerV2;
import org.apache.rocketmq.broker.config.v2.TopicConfigManagerV2;
import org.apache.rocketmq.broker.offset.ConsumerOffsetManager;
import org.apache.rocketmq.broker.offset.LmqConsumerOffsetManager;
import org.apache.rocketmq.broker.topic.TopicConfigManager;
import org.apache.rocketmq.common.BrokerConfig;
import org.apache.rocketmq.remoting.protocol.DataVersion;
import org.apache.rocketmq.store.config.MessageStoreConfig;
import org.rocksdb.CompressionType;
import sun.misc.Unsafe;

/**
 * The broker's tables of consumer offsets in RocksDB, read as a broker that starts does, and written again.
 * Its managers want a whole broker when they are made, and none when they load and persist: so no constructor runs.
 */
final class Metadata {
    private static final long FLUSH_INTERVAL_MS = 3_600_000;

    private Metadata() {
    }

    static Map<String, Object> metadata(Args args) throws ReflectiveOperationException {
        Path store = Path.of(args.position(1, "STORE"));
        String kind = args.position(2, "KIND");
        return switch (kind) {
            case "v1" -> first(store, false);
            case "v1-single" -> first(store, true);
            case "v2" -> second(store);
            case "lmq" -> light(store);
            case "topics-v1" -> firstTopics(store, false);
            case "topics-v1-single" -> firstTopics(store, true);
            case "topics-v2" -> secondTopics(store);
            default -> throw new IllegalArgumentException(kind);
        };
    }

    private static Map<String, Object> first(Path store, boolean single) throws ReflectiveOperationException {
        Path config = store.resolve("config");
        RocksDBConfigManager database = single
            ? new RocksDBConfigManager(config.resolve("metadata").toString(), FLUSH_INTERVAL_MS,
                CompressionType.LZ4_COMPRESSION, "consumerOffset", "consumerOffsetVersion")
            : new RocksDBConfigManager(config.resolve("consumerOffsets").toString(), FLUSH_INTERVAL_MS,
                CompressionType.LZ4_COMPRESSION);
        RocksDBConsumerOffsetManager manager =
            (RocksDBConsumerOffsetManager) unsafe().allocateInstance(RocksDBConsumerOffsetManager.class);
        set(RocksDBConsumerOffsetManager.class, manager, "rocksDBConfigManager", database);
        set(RocksDBConsumerOffsetManager.class, manager, "storePathRootDir", store.toString());
        set(RocksDBConsumerOffsetManager.class, manager, "useSingleRocksDBForAllConfigs", single);
        set(ConsumerOffsetManager.class, manager, "offsetTable", new ConcurrentHashMap<>());
        set(ConsumerOffsetManager.class, manager, "dataVersion", new DataVersion());
        // It asks for the settings of a database that it takes in.
        set(ConsumerOffsetManager.class, manager, "brokerController", controller(store));
        boolean loaded = manager.load();
        Map<String, Object> found = answer(loaded, manager);
        manager.stop();
        return found;
    }

    private static Map<String, Object> second(Path store) {
        MessageStoreConfig settings = new MessageStoreConfig();
        settings.setStorePathRootDir(store.toString());
        ConfigStorage storage = new ConfigStorage(settings);
        boolean started = storage.start();
        ConsumerOffsetManagerV2 manager = new ConsumerOffsetManagerV2(null, storage);
        boolean loaded = started && manager.load();
        Map<String, Object> found = answer(loaded, manager);
        storage.shutdown();
        return found;
    }

    private static Map<String, Object> light(Path store) {
        LmqConsumerOffsetManager manager = new LmqConsumerOffsetManager() {
            @Override
            public String configFilePath() {
                return store.resolve("config").resolve("lmqConsumerOffset.json").toString();
            }
        };
        boolean loaded = manager.load();
        Map<String, Object> found = new TreeMap<>(answer(loaded, manager));
        found.put("light", new TreeMap<>(manager.getLmqOffsetTable()));
        return found;
    }

    private static Map<String, Object> firstTopics(Path store, boolean single) throws ReflectiveOperationException {
        // The constructor with a folder passes over the one of the settings, so both are given.
        RocksDBTopicConfigManager manager =
            new RocksDBTopicConfigManager(controller(store), single, store.toString());
        Map<String, Object> found = topics(manager.load(), manager);
        manager.stop();
        return found;
    }

    private static Map<String, Object> secondTopics(Path store) throws ReflectiveOperationException {
        MessageStoreConfig settings = new MessageStoreConfig();
        settings.setStorePathRootDir(store.toString());
        ConfigStorage storage = new ConfigStorage(settings);
        boolean started = storage.start();
        TopicConfigManagerV2 manager = new TopicConfigManagerV2(controller(store), storage);
        Map<String, Object> found = topics(started && manager.load(), manager);
        storage.shutdown();
        return found;
    }

    private static Map<String, Object> topics(boolean loaded, TopicConfigManager manager) {
        Map<String, Object> queues = new TreeMap<>();
        manager.getTopicConfigTable().forEach((name, topic) -> queues.put(name, topic.getWriteQueueNums()));
        return Json.object("load", loaded, "counter", manager.getDataVersion().getCounter().get(), "topics", queues);
    }

    private static BrokerController controller(Path store) throws ReflectiveOperationException {
        MessageStoreConfig settings = new MessageStoreConfig();
        settings.setStorePathRootDir(store.toString());
        BrokerController controller = (BrokerController) unsafe().allocateInstance(BrokerController.class);
        set(BrokerController.class, controller, "messageStoreConfig", settings);
        set(BrokerController.class, controller, "brokerConfig", new BrokerConfig());
        return controller;
    }

    private static Map<String, Object> answer(boolean loaded, ConsumerOffsetManager manager) {
        return Json.object("load", loaded, "counter", manager.getDataVersion().getCounter().get(),
            "timestamp", manager.getDataVersion().getTimestamp(), "offsets", new TreeMap<>(manager.getOffsetTable()));
    }

    private static void set(Class<?> owner, Object target, String name, Object value)
        throws ReflectiveOperationException {
        // A final field of a class that is no record: reflection sets it once it is made accessible.
        Field field = owner.getDeclaredField(name);
        field.setAccessible(true);
        field.set(target, value);
    }

    private static Unsafe unsafe() throws ReflectiveOperationException {
        Field field = Unsafe.class.getDeclaredField("theUnsafe");
        field.setAccessible(true);
        return (Unsafe) field.get(null);
    }
}
