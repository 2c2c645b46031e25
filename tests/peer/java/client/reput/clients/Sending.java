package reput.clients;

import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;
import java.util.TreeSet;
import java.util.concurrent.ConcurrentSkipListSet;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.TimeUnit;
import org.apache.rocketmq.client.exception.MQBrokerException;
import org.apache.rocketmq.client.exception.MQClientException;
import org.apache.rocketmq.client.producer.DefaultMQProducer;
import org.apache.rocketmq.client.producer.SendCallback;
import org.apache.rocketmq.client.producer.SendResult;
import org.apache.rocketmq.common.message.Message;
import org.apache.rocketmq.common.message.MessageQueue;

/** Producers: each way to send, and what a broker refuses. */
final class Sending {
    static final int COUNT = 20;

    private Sending() {
    }

    /** Sends 20 messages in each way to the topic `send`, which has 4 queues; consumers read them in other scenarios. */
    static Map<String, Object> send(Clients clients) throws Exception {
        DefaultMQProducer producer = clients.producer("senders");
        Map<String, Object> outcome = new TreeMap<>();
        TreeSet<Integer> queues = new TreeSet<>();
        TreeSet<String> statuses = new TreeSet<>();
        for (int number = 0; number < COUNT; number++) {
            SendResult sent = producer.send(clients.message("send", "sync", number));
            queues.add(sent.getMessageQueue().getQueueId());
            statuses.add(sent.getSendStatus() + " " + sent.getRegionId() + " " + sent.isTraceOn() + " " + (sent.getTransactionId() == null));
        }
        outcome.put("queues", queues);
        outcome.put("statuses", statuses);
        outcome.put("async", async(clients, producer));
        for (int number = 0; number < COUNT; number++) {
            producer.sendOneway(clients.message("send", "oneway", number));
        }
        List<Message> batch = new ArrayList<>();
        for (int number = 0; number < COUNT; number++) {
            batch.add(clients.message("send", "batch", number));
        }
        SendResult sent = producer.send(batch, new MessageQueue(clients.name("send"), brokerName(producer, clients), 1));
        outcome.put("batch", sent.getSendStatus() + " " + sent.getOffsetMsgId().split(",").length + " " + sent.getMessageQueue().getQueueId());
        Message large = new Message(clients.name("send"), "large", "large0", Clients.bytes("large ".repeat(10_000)));
        outcome.put("large", producer.send(large).getSendStatus());
        Message flagged = clients.message("fresh", "first", 0);
        flagged.setFlag(7);
        outcome.put("fresh", producer.send(flagged).getSendStatus());
        outcome.put("fresh queues", producer.fetchPublishMessageQueues(clients.name("fresh")).size());
        producer.shutdown();
        return outcome;
    }

    static String brokerName(DefaultMQProducer producer, Clients clients) throws Exception {
        return producer.fetchPublishMessageQueues(clients.name("send")).get(0).getBrokerName();
    }

    private static TreeSet<String> async(Clients clients, DefaultMQProducer producer) throws Exception {
        CountDownLatch left = new CountDownLatch(COUNT);
        ConcurrentSkipListSet<String> ended = new ConcurrentSkipListSet<>();
        for (int number = 0; number < COUNT; number++) {
            producer.send(clients.message("send", "async", number), new SendCallback() {
                @Override
                public void onSuccess(SendResult sent) {
                    ended.add(sent.getSendStatus().name());
                    left.countDown();
                }

                @Override
                public void onException(Throwable error) {
                    ended.add(error.toString());
                    left.countDown();
                }
            });
        }
        ended.add(left.await(Clients.LIMIT_MS, TimeUnit.MILLISECONDS) ? "all" : "not all");
        return new TreeSet<>(ended);
    }

    /** Asks for what a broker must refuse; and notes the codes. */
    static Map<String, Object> refused(Clients clients) throws Exception {
        DefaultMQProducer producer = clients.producer("refused");
        producer.setRetryTimesWhenSendFailed(0);
        Map<String, Object> outcome = new TreeMap<>();
        String broker = brokerName(producer, clients);
        Message plain = clients.message("send", "never", 0);
        outcome.put("queue", code(() -> producer.send(plain, new MessageQueue(clients.name("send"), broker, 99))));
        Message tooLong = new Message(clients.name("send"), "never", "never", new byte[(4 << 20) + 1]);
        producer.setMaxMessageSize(16 << 20);
        producer.setCompressMsgBodyOverHowmuch(32 << 20);
        outcome.put("size", code(() -> producer.send(tooLong)));
        Message schedule = new Message("SCHEDULE_TOPIC_XXXX", Clients.bytes("never"));
        outcome.put("system topic", code(() -> producer.send(schedule, new MessageQueue("SCHEDULE_TOPIC_XXXX", broker, 0))));
        producer.shutdown();
        return outcome;
    }

    interface Ask {
        Object now() throws Exception;
    }

    static String code(Ask ask) throws Exception {
        try {
            ask.now();
            return "answered";
        } catch (MQBrokerException refused) {
            return "broker " + refused.getResponseCode();
        } catch (MQClientException refused) {
            return "client " + refused.getResponseCode();
        }
    }
}
