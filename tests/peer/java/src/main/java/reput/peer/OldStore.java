package reput.peer;

import com.alibaba.fastjson2.JSONObject;
import java.nio.file.Path;
import java.util.Properties;
import org.apache.rocketmq.common.BrokerConfig;
import org.apache.rocketmq.common.MixAll;
import org.apache.rocketmq.common.message.MessageDecoder;
import org.apache.rocketmq.store.DefaultMessageStore;
import org.apache.rocketmq.store.MessageExtBrokerInner;
import org.apache.rocketmq.store.MessageStore;
import org.apache.rocketmq.store.PutMessageResult;
import org.apache.rocketmq.store.config.MessageStoreConfig;
import org.apache.rocketmq.store.stats.BrokerStatsManager;

/** A turn of the store code of 4.9: no RocksDB, no queues of batches, no tags in its index. */
public final class OldStore extends Turn {
    private final DefaultMessageStore store;

    private OldStore(Args args) throws Exception {
        MessageStoreConfig config = new MessageStoreConfig();
        Properties given = settings(Path.of(args.position(0, "STORE")), config, args);
        MixAll.properties2Object(given, config);
        store = new DefaultMessageStore(config, new BrokerStatsManager("reput-peer", false), (topic, queue, offset, tags,
            time, bits, properties) -> { }, new BrokerConfig());
    }

    public static void main(String[] words) throws Exception {
        Turn.main(new OldStore(new Args(words)));
    }

    @Override
    MessageStore open() throws Exception {
        if (!store.load()) {
            throw new IllegalStateException("RocketMQ refuses to load the store");
        }
        store.start();
        return store;
    }

    @Override
    PutMessageResult put(MessageStore rocketmq, JSONObject asked) {
        MessageExtBrokerInner message = new MessageExtBrokerInner();
        message.setPropertiesString(MessageDecoder.messageProperties2String(fill(message, asked)));
        message.setTagsCode(MessageExtBrokerInner.tagsString2tagsCode(message.getTags()));
        return rocketmq.putMessage(message);
    }

    @Override
    void close() {
        store.shutdown();
    }
}
