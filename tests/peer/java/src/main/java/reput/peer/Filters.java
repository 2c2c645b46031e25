package reput.peer;

import com.alibaba.fastjson2.JSON;
import com.alibaba.fastjson2.JSONArray;
import java.io.BufferedReader;
import java.io.IOException;
import java.io.InputStream;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.lang.reflect.Field;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import org.apache.rocketmq.broker.filter.CommitLogDispatcherCalcBitMap;
import org.apache.rocketmq.broker.filter.ConsumerFilterManager;
import org.apache.rocketmq.common.BrokerConfig;
import org.apache.rocketmq.filter.util.BloomFilter;

/** RocketMQ's registry of consumers' SQL92 filters, with the broker's default Bloom filter. */
final class Filters {
    private Filters() {
    }

    /**
     * Per line on stdin ["load", path], ["register", topic, group, sql, type, version], ["unregister", group] or
     * ["save", path]: {"ok": ..., "json": what the registry would persist}.
     */
    static void filters(InputStream in, PrintStream out) throws Exception {
        ConsumerFilterManager manager = manager();
        for (String line : new BufferedReader(new InputStreamReader(in, StandardCharsets.UTF_8)).lines().toList()) {
            JSONArray asked = JSON.parseArray(line);
            boolean ok = true;
            switch (asked.getString(0)) {
                case "load" -> load(manager, Path.of(asked.getString(1)));
                case "register" -> ok = manager.register(asked.getString(1), asked.getString(2), asked.getString(3),
                    asked.getString(4), asked.getLongValue(5));
                case "unregister" -> manager.unRegister(asked.getString(1));
                case "save" -> Files.writeString(Path.of(asked.getString(1)), manager.encode(true));
                default -> throw new IllegalArgumentException(line);
            }
            out.println(Json.text(Json.object("ok", ok, "json", manager.encode(true))));
        }
    }

    /** A registry as a broker has it that starts now, from a consumerFilter.json if there is one. */
    static ConsumerFilterManager load(Path file) throws Exception {
        ConsumerFilterManager manager = manager();
        load(manager, file);
        return manager;
    }

    /** What computes bitmaps when messages are dispatched. */
    static CommitLogDispatcherCalcBitMap dispatcher(ConsumerFilterManager manager) {
        BrokerConfig config = new BrokerConfig();
        config.setEnableCalcFilterBitMap(true);
        return new CommitLogDispatcherCalcBitMap(config, manager);
    }

    private static void load(ConsumerFilterManager manager, Path file) throws IOException {
        if (Files.exists(file)) {
            manager.decode(Files.readString(file));
        }
    }

    private static ConsumerFilterManager manager() throws ReflectiveOperationException {
        ConsumerFilterManager manager = new ConsumerFilterManager();
        BrokerConfig config = new BrokerConfig();
        Field bloom = ConsumerFilterManager.class.getDeclaredField("bloomFilter");
        bloom.setAccessible(true);
        bloom.set(manager, BloomFilter.createByFn(config.getMaxErrorRateOfBloomFilter(),
            config.getExpectConsumerNumUseFilter()));
        return manager;
    }
}
