package reput.peer;

import java.nio.file.Path;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import org.apache.rocketmq.common.message.Message;
import org.apache.rocketmq.common.message.MessageAccessor;
import org.apache.rocketmq.common.message.MessageConst;
import org.apache.rocketmq.common.message.MessageDecoder;
import org.apache.rocketmq.common.message.MessageExtBatch;
import org.apache.rocketmq.common.message.MessageExtBrokerInner;
import org.apache.rocketmq.store.PutMessageResult;
import org.apache.rocketmq.store.queue.ConsumeQueueInterface;

/** RocketMQ's store in the comparison by topics. A batch is encoded as a client does it, and put as a broker does. */
public final class BenchTopics extends TopicsTurn {
    private final Path root;
    private final Args args;
    private Store store;

    private BenchTopics(Args args) {
        super(args.number("queues", 64));
        this.args = args;
        root = Path.of(args.position(0, "STORE"));
    }

    public static void main(String[] words) {
        main(() -> new BenchTopics(new Args(words)));
    }

    @Override
    void openStore() throws Exception {
        store = new Store(root, args);
        store.open();
    }

    @Override
    void put(int queue, Given given) {
        MessageExtBrokerInner message = addressed(new MessageExtBrokerInner(), queue);
        fill(message, given);
        message.setPropertiesString(MessageDecoder.messageProperties2String(message.getProperties()));
        PutMessageResult result = store.rocketmq.putMessage(message);
        if (!result.isOk()) {
            throw new IllegalStateException("a put failed: " + result.getPutMessageStatus());
        }
    }

    @Override
    void put(int queue, Given[] given) {
        List<Message> messages = new ArrayList<>(given.length);
        for (Given one : given) {
            Message message = new Message();
            message.setTopic(topics[queue / QUEUES_PER_TOPIC]);
            fill(message, one);
            messages.add(message);
        }
        MessageExtBatch batch = addressed(new MessageExtBatch(), queue);
        batch.setBody(MessageDecoder.encodeMessages(messages));
        PutMessageResult result = store.rocketmq.putMessages(batch);
        if (!result.isOk()) {
            throw new IllegalStateException("a batch failed: " + result.getPutMessageStatus());
        }
    }

    @Override
    void awaitQueues() throws Exception {
        store.awaitDispatch();
    }

    private <T extends MessageExtBrokerInner> T addressed(T message, int queue) {
        message.setTopic(topics[queue / QUEUES_PER_TOPIC]);
        message.setQueueId(queue % QUEUES_PER_TOPIC);
        message.setBornTimestamp(System.currentTimeMillis());
        message.setBornHost(Writing.HOST);
        message.setStoreHost(Writing.HOST);
        return message;
    }

    static void fill(Message message, Given given) {
        message.setBody(given.body());
        MessageAccessor.setProperties(message, new HashMap<>());
        message.setTags(given.tags());
        message.setKeys(given.keys());
        MessageAccessor.putProperty(message, MessageConst.PROPERTY_UNIQ_CLIENT_MESSAGE_ID_KEYIDX, given.uniqueKey());
    }

    @Override
    long stored() throws Exception {
        store.awaitDispatch();
        long stored = 0;
        for (ConsumeQueueInterface queue : store.queues()) {
            stored += queue.getMaxOffsetInQueue();
        }
        return stored;
    }
}
