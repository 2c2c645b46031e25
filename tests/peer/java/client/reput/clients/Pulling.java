package reput.clients;

import java.util.ArrayList;
import java.util.Collection;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;
import java.util.TreeSet;
import org.apache.rocketmq.client.QueryResult;
import org.apache.rocketmq.client.consumer.DefaultLitePullConsumer;
import org.apache.rocketmq.client.producer.DefaultMQProducer;
import org.apache.rocketmq.client.producer.SendResult;
import org.apache.rocketmq.common.consumer.ConsumeFromWhere;
import org.apache.rocketmq.common.message.MessageExt;
import org.apache.rocketmq.common.message.MessageQueue;

/** Consumers that ask for messages, and requests about offsets, times, ids and keys. */
final class Pulling {
    private Pulling() {
    }

    private static DefaultLitePullConsumer puller(Clients clients, String group) {
        DefaultLitePullConsumer consumer = new DefaultLitePullConsumer(clients.name(group));
        consumer.setNamesrvAddr(clients.address);
        consumer.setConsumeFromWhere(ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET);
        consumer.setAutoCommit(false);
        return consumer;
    }

    private static List<Object> poll(Clients clients, DefaultLitePullConsumer consumer, int count) {
        List<Object> got = new ArrayList<>();
        long end = System.currentTimeMillis() + Clients.LIMIT_MS;
        while (got.size() < count && System.currentTimeMillis() < end) {
            for (MessageExt one : consumer.poll(1000)) {
                got.add(clients.seen(one));
            }
        }
        return got;
    }

    /** Takes what the scenario `send` sends, as a member of a group, and commits. */
    static Map<String, Object> pull(Clients clients) throws Exception {
        DefaultLitePullConsumer consumer = puller(clients, "pullers");
        consumer.subscribe(clients.name("send"), "*");
        consumer.start();
        Map<String, Object> outcome = new TreeMap<>();
        outcome.put("got", Clients.sorted(poll(clients, consumer, 4 * Sending.COUNT + 1)));
        consumer.commitSync();
        consumer.shutdown();
        return outcome;
    }

    /** Reads queues that it chooses: from a place, and from a time. */
    static Map<String, Object> assign(Clients clients) throws Exception {
        DefaultMQProducer producer = clients.producer("assign-senders");
        long between = 0;
        List<MessageQueue> queues = producer.fetchPublishMessageQueues(clients.name("assign"));
        for (int number = 0; number < 20; number++) {
            if (number == 10) {
                Thread.sleep(50);
                between = System.currentTimeMillis();
                Thread.sleep(50);
            }
            producer.send(clients.message("assign", "place", number), queues.get(number % 2));
        }
        producer.shutdown();
        DefaultLitePullConsumer consumer = puller(clients, "assign-group");
        consumer.start();
        Collection<MessageQueue> all = consumer.fetchMessageQueues(clients.name("assign"));
        MessageQueue first = all.stream().filter(one -> one.getQueueId() == queues.get(0).getQueueId()).findFirst().orElseThrow();
        consumer.assign(List.of(first));
        consumer.seek(first, 7);
        Map<String, Object> outcome = new TreeMap<>();
        outcome.put("queues", new TreeSet<>(all).size());
        outcome.put("from 7", Clients.sorted(poll(clients, consumer, 3)));
        consumer.seek(first, consumer.offsetForTimestamp(first, between));
        outcome.put("from the time", Clients.sorted(poll(clients, consumer, 5)));
        consumer.commitSync();
        outcome.put("committed", consumer.committed(first));
        consumer.shutdown();
        return outcome;
    }

    @SuppressWarnings("deprecation")
    private static long maxOffset(DefaultMQProducer producer, MessageQueue queue) {
        try {
            return producer.maxOffset(queue);
        } catch (Exception failed) {
            throw new IllegalStateException(failed);
        }
    }

    /** Asks for ends and times of a queue, for messages by id and by key. */
    @SuppressWarnings("deprecation")
    static Map<String, Object> ask(Clients clients) throws Exception {
        DefaultMQProducer producer = clients.producer("askers");
        String topic = clients.name("ask");
        MessageQueue queue = producer.fetchPublishMessageQueues(topic).get(0);
        Map<String, Object> outcome = new TreeMap<>();
        outcome.put("empty", producer.minOffset(queue) + " " + producer.maxOffset(queue) + " " + producer.earliestMsgStoreTime(queue));
        long before = System.currentTimeMillis();
        SendResult sent = producer.send(clients.message("ask", "wanted", 0), queue);
        producer.send(clients.message("ask", "wanted", 1), queue);
        // RocketMQ makes entries of queues a moment later.
        Clients.await(() -> maxOffset(producer, queue) == 2);
        long first = producer.earliestMsgStoreTime(queue);
        outcome.put("ends", producer.minOffset(queue) + " " + producer.maxOffset(queue) + " " + (first >= before - 1000));
        outcome.put("times", producer.searchOffset(queue, 0) + " " + producer.searchOffset(queue, first) + " " + producer.searchOffset(queue, first + 3_600_000));
        outcome.put("by id", clients.seen(producer.viewMessage(topic, sent.getMsgId())));
        outcome.put("by place", clients.seen(producer.viewMessage(topic, sent.getOffsetMsgId())));
        long end = System.currentTimeMillis() + Clients.LIMIT_MS;
        List<MessageExt> found = new ArrayList<>();
        while (found.isEmpty() && System.currentTimeMillis() < end) {
            try {
                QueryResult result = producer.queryMessage(topic, "wanted1", 32, before - 60_000, before + 3_600_000);
                found.addAll(result.getMessageList());
            } catch (Exception notIndexedYet) {
                Thread.sleep(100);
            }
        }
        List<Object> byKey = new ArrayList<>();
        found.forEach(one -> byKey.add(clients.seen(one)));
        outcome.put("by key", Clients.sorted(byKey));
        outcome.put("no key", Sending.code(() -> producer.queryMessage(topic, "nothing", 32, before - 60_000, before + 3_600_000)));
        producer.shutdown();
        return outcome;
    }
}
