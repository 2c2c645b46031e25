package reput.peer;

import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import org.apache.rocketmq.client.producer.DefaultMQProducer;
import org.apache.rocketmq.client.producer.SendCallback;
import org.apache.rocketmq.client.producer.SendResult;
import org.apache.rocketmq.client.producer.SendStatus;
import org.apache.rocketmq.common.message.Message;
import org.apache.rocketmq.common.message.MessageAccessor;
import org.apache.rocketmq.common.message.MessageConst;
import org.apache.rocketmq.common.message.MessageQueue;

/**
 * RocketMQ's own client in the comparison by topics, with whichever broker listens. Single: a request for each message.
 * Batch: a request for each BATCH messages of a queue. 256 requests are under way. The topics are there before.
 */
public final class RocketSending extends TopicsTurn {
    private static final int UNDER_WAY = 256;
    private static final int DISPATCH_TRIES = 300;

    private final String address;
    private final String broker;
    private final UnderWay single = new UnderWay(UNDER_WAY);
    private final UnderWay batches = new UnderWay(UNDER_WAY);
    private DefaultMQProducer producer;

    private RocketSending(Args args) {
        super(args.number("queues", 64));
        address = args.position(0, "ADDRESS");
        broker = args.position(1, "BROKER");
    }

    public static void main(String[] words) {
        main(() -> new RocketSending(new Args(words)));
    }

    @Override
    void openStore() throws Exception {
        producer = new DefaultMQProducer("bench-topics");
        producer.setNamesrvAddr(address);
        producer.setSendMsgTimeout(60_000);
        producer.start();
    }

    @Override
    void put(int queue, Given given) throws Exception {
        single.begin(1);
        producer.send(message(queue, given), queue(queue), ended(single));
    }

    @Override
    void put(int queue, Given[] given) throws Exception {
        List<Message> messages = new ArrayList<>(given.length);
        for (Given one : given) {
            messages.add(message(queue, one));
        }
        batches.begin(1);
        producer.send(messages, queue(queue), ended(batches));
    }

    private Message message(int queue, Given given) {
        Message message = new Message();
        message.setTopic(topics[queue / QUEUES_PER_TOPIC]);
        message.setBody(given.body());
        MessageAccessor.setProperties(message, new HashMap<>());
        message.setTags(given.tags());
        message.setKeys(given.keys());
        MessageAccessor.putProperty(message, MessageConst.PROPERTY_UNIQ_CLIENT_MESSAGE_ID_KEYIDX, given.uniqueKey());
        return message;
    }

    private MessageQueue queue(int queue) {
        return new MessageQueue(topics[queue / QUEUES_PER_TOPIC], broker, queue % QUEUES_PER_TOPIC);
    }

    private static SendCallback ended(UnderWay underWay) {
        return new SendCallback() {
            @Override
            public void onSuccess(SendResult result) {
                boolean stored = result.getSendStatus() == SendStatus.SEND_OK;
                underWay.end(1, stored ? null : new IllegalStateException(result.toString()));
            }

            @Override
            public void onException(Throwable failed) {
                underWay.end(1, failed);
            }
        };
    }

    @Override
    void settle() throws Exception {
        single.await();
        batches.await();
    }

    /** A broker's queues get the messages a moment after it has confirmed them. */
    @Override
    long stored() throws Exception {
        long stored = counted();
        for (int tries = 0; stored < put() && tries < DISPATCH_TRIES; tries++) {
            Thread.sleep(100);
            stored = counted();
        }
        return stored;
    }

    private long counted() throws Exception {
        long stored = 0;
        for (int queue = 0; queue < queues; queue++) {
            stored += producer.maxOffset(queue(queue));
        }
        return stored;
    }
}
