package reput.peer;

import com.alibaba.fastjson2.JSONObject;
import java.io.IOException;
import java.net.InetAddress;
import java.net.InetSocketAddress;
import java.net.ServerSocket;
import java.nio.file.Path;
import java.util.Map;
import java.util.Properties;
import java.util.concurrent.ThreadLocalRandom;
import org.apache.rocketmq.broker.BrokerController;
import org.apache.rocketmq.common.BrokerConfig;
import org.apache.rocketmq.common.MQVersion;
import org.apache.rocketmq.common.MixAll;
import org.apache.rocketmq.common.TopicConfig;
import org.apache.rocketmq.common.attribute.CQType;
import org.apache.rocketmq.common.compression.CompressionType;
import org.apache.rocketmq.common.compression.CompressorFactory;
import org.apache.rocketmq.common.lite.LiteUtil;
import org.apache.rocketmq.common.message.MessageAccessor;
import org.apache.rocketmq.common.message.MessageConst;
import org.apache.rocketmq.common.message.MessageDecoder;
import org.apache.rocketmq.common.message.MessageExtBrokerInner;
import org.apache.rocketmq.common.namesrv.NamesrvConfig;
import org.apache.rocketmq.common.sysflag.MessageSysFlag;
import org.apache.rocketmq.namesrv.NamesrvController;
import org.apache.rocketmq.remoting.netty.NettyClientConfig;
import org.apache.rocketmq.remoting.netty.NettyServerConfig;
import org.apache.rocketmq.remoting.protocol.RemotingCommand;
import org.apache.rocketmq.store.MessageStore;
import org.apache.rocketmq.store.PutMessageResult;
import org.apache.rocketmq.store.config.MessageStoreConfig;

/**
 * A turn of a whole broker, with all of its services, that listens on the loopback address.
 *
 * Beside the lines of {@link Turn} and {@link Administering} a message may have <code>"compress": "LZ4"</code> (or ZSTD,
 * ZLIB), <code>"half": true</code> for a transaction that nobody has ended, and <code>"lite": NAME</code> for a lite topic.
 *
 * With `--serve true` it has a name server, and its first line says where both listen: {"namesrv": ..., "broker": ...}.
 */
public final class WholeBroker extends Turn {
    private static final int COMPRESSION_LEVEL = 5;
    private final Path root;
    private final Args args;
    private BrokerController broker;
    private NamesrvController nameServer;
    private Map<String, Object> opened = Json.object("open", true);

    private WholeBroker(Args args) {
        this.args = args;
        root = Path.of(args.position(0, "STORE"));
    }

    public static void main(String[] words) throws Exception {
        Turn.main(new WholeBroker(new Args(words)));
    }

    @Override
    MessageStore open() throws Exception {
        BrokerConfig config = new BrokerConfig();
        config.setRocketmqHome(System.getProperty("user.home"));
        config.setBrokerIP1("127.0.0.1");
        config.setBrokerIP2("127.0.0.1");
        config.setAutoDeleteUnusedStats(true);
        // A thread of 5.5.1 takes a whole core until this time is over, 10 s by default (its issue 10515).
        config.setTransactionMetricFlushInterval(200);
        NettyServerConfig server = new NettyServerConfig();
        server.setBindAddress("127.0.0.1");
        server.setListenPort(freePort());
        config.setListenPort(server.getListenPort());
        MessageStoreConfig store = new MessageStoreConfig();
        Properties given = settings(root, store, args);
        MixAll.properties2Object(given, store);
        MixAll.properties2Object(given, config);
        if (!args.all("serve").isEmpty()) {
            // As `BrokerStartup` does it: a name server drops the topics of a broker without a version.
            System.setProperty(RemotingCommand.REMOTING_VERSION_KEY, Integer.toString(MQVersion.CURRENT_VERSION));
            config.setNamesrvAddr(startNameServer());
            String own = "127.0.0.1:" + server.getListenPort();
            opened = Json.object("open", true, "namesrv", config.getNamesrvAddr(), "broker", own);
        }
        broker = new BrokerController(config, server, new NettyClientConfig(), store);
        if (!broker.initialize()) {
            throw new IllegalStateException("the broker refuses to start with " + root);
        }
        broker.start();
        for (String topic : args.all("batch-topic")) {
            TopicConfig batches = new TopicConfig(topic);
            batches.getAttributes().put("queue.type", CQType.BatchCQ.toString());
            broker.getTopicConfigManager().getTopicConfigTable().putIfAbsent(topic, batches);
            broker.getTopicConfigManager().persist();
        }
        return broker.getMessageStore();
    }

    @Override
    Map<String, Object> opened() {
        return opened;
    }

    private String startNameServer() throws Exception {
        NamesrvConfig config = new NamesrvConfig();
        config.setRocketmqHome(System.getProperty("user.home"));
        config.setKvConfigPath(System.getProperty("user.home") + "/kvConfig.json");
        config.setConfigStorePath(System.getProperty("user.home") + "/namesrv.properties");
        NettyServerConfig server = new NettyServerConfig();
        server.setBindAddress("127.0.0.1");
        server.setListenPort(freePort());
        nameServer = new NamesrvController(config, server);
        nameServer.initialize();
        nameServer.start();
        return "127.0.0.1:" + server.getListenPort();
    }

    /** A free port below those that Linux gives to clients; the one two below it is free, too, for a broker takes both. */
    private static int freePort() throws IOException {
        InetAddress loopback = InetAddress.getLoopbackAddress();
        while (true) {
            int port = ThreadLocalRandom.current().nextInt(20_000, 32_000);
            try (ServerSocket one = new ServerSocket(); ServerSocket other = new ServerSocket()) {
                one.bind(new InetSocketAddress(loopback, port));
                other.bind(new InetSocketAddress(loopback, port - 2));
                return port;
            } catch (IOException taken) {
                continue;
            }
        }
    }

    @Override
    Map<String, Object> answer(MessageStore store, JSONObject asked) throws Exception {
        Map<String, Object> found = Administering.answer(broker, asked);
        return found != null ? found : super.answer(store, asked);
    }

    @Override
    PutMessageResult put(MessageStore store, JSONObject asked) throws IOException {
        MessageExtBrokerInner message = new MessageExtBrokerInner();
        Map<String, String> properties = fill(message, asked);
        if (asked.containsKey("lite")) {
            // SendMessageProcessor does the same.
            properties.put(MessageConst.PROPERTY_LITE_TOPIC, asked.getString("lite"));
            properties.put(MessageConst.PROPERTY_INNER_MULTI_DISPATCH,
                LiteUtil.toLmqName(message.getTopic(), asked.getString("lite")));
        }
        MessageAccessor.setProperties(message, properties);
        message.setPropertiesString(MessageDecoder.messageProperties2String(properties));
        message.setTagsCode(MessageExtBrokerInner.tagsString2tagsCode(message.getTags()));
        if (asked.containsKey("compress")) {
            compress(message, CompressionType.of(asked.getString("compress")));
        }
        return asked.getBooleanValue("half")
            ? broker.getTransactionalMessageService().prepareMessage(message)
            : store.putMessage(message);
    }

    /** Compresses the body as a producer does. */
    private static void compress(MessageExtBrokerInner message, CompressionType type) throws IOException {
        message.setBody(CompressorFactory.getCompressor(type).compress(message.getBody(), COMPRESSION_LEVEL));
        message.setSysFlag(message.getSysFlag() | MessageSysFlag.COMPRESSED_FLAG | type.getCompressionFlag());
    }

    @Override
    void close() {
        broker.shutdown();
        if (nameServer != null) {
            nameServer.shutdown();
        }
    }
}
