package reput.clients;

import java.util.Map;
import java.util.Queue;
import java.util.TreeMap;
import java.util.TreeSet;
import java.util.concurrent.ConcurrentSkipListSet;
import java.util.function.IntFunction;
import org.apache.rocketmq.client.consumer.DefaultMQPushConsumer;
import org.apache.rocketmq.client.producer.DefaultMQProducer;
import org.apache.rocketmq.client.producer.LocalTransactionState;
import org.apache.rocketmq.client.producer.TransactionListener;
import org.apache.rocketmq.client.producer.TransactionMQProducer;
import org.apache.rocketmq.common.message.Message;
import org.apache.rocketmq.common.message.MessageAccessor;
import org.apache.rocketmq.common.message.MessageExt;

/** Messages that come later: by delay level, by time, and when their transaction is committed. */
final class Later {
    private Later() {
    }

    /** A time so far off that a broker which is cold, or on a busy machine, still takes the message before it. */
    private static final long LATER_MS = 10_000;

    /** Messages that are made when they are sent: what they say of the time is true then. */
    private static Map<String, Object> received(Clients clients, String topic, int count, IntFunction<Message> made) throws Exception {
        DefaultMQPushConsumer consumer = clients.pusher(topic + "-group");
        consumer.subscribe(clients.name(topic), "*");
        Queue<Object> got = Pushing.noting(clients, consumer);
        consumer.start();
        DefaultMQProducer producer = clients.producer(topic + "-senders");
        TreeSet<String> statuses = new TreeSet<>();
        long begin = System.currentTimeMillis();
        for (int number = 0; number < count; number++) {
            statuses.add(producer.send(made.apply(number)).getSendStatus().name());
        }
        Clients.await(() -> got.size() >= count);
        long took = System.currentTimeMillis() - begin;
        consumer.shutdown();
        producer.shutdown();
        Map<String, Object> outcome = new TreeMap<>();
        outcome.put("statuses", statuses);
        outcome.put("got", Clients.sorted(got));
        outcome.put("late", took >= 900);
        return outcome;
    }

    static Map<String, Object> delay(Clients clients) throws Exception {
        return received(clients, "delay", 8, number -> {
            Message message = clients.message("delay", "late", number);
            message.setDelayTimeLevel(number % 4 + (number == 7 ? 90 : 0));
            return message;
        });
    }

    static Map<String, Object> timer(Clients clients) throws Exception {
        String[] names = {"TIMER_DELAY_MS", "TIMER_DELAY_SEC", "TIMER_DELIVER_MS", "TIMER_DELIVER_MS"};
        return received(clients, "timer", 4, number -> {
            long now = System.currentTimeMillis();
            long[] values = {2500, 2, now + LATER_MS, now - 5000};
            Message message = clients.message("timer", "late", number);
            MessageAccessor.putProperty(message, names[number], Long.toString(values[number]));
            return message;
        });
    }

    /** Transactions that are committed, rolled back, and left open until the broker asks back. */
    static Map<String, Object> transaction(Clients clients) throws Exception {
        ConcurrentSkipListSet<String> checked = new ConcurrentSkipListSet<>();
        DefaultMQPushConsumer consumer = clients.pusher("transaction-group");
        consumer.subscribe(clients.name("transaction"), "*");
        Queue<Object> got = Pushing.noting(clients, consumer);
        consumer.start();
        TransactionMQProducer producer = new TransactionMQProducer(clients.name("transaction-senders"));
        producer.setNamesrvAddr(clients.address);
        producer.setSendMsgTimeout(20_000);
        producer.setTransactionListener(new TransactionListener() {
            @Override
            public LocalTransactionState executeLocalTransaction(Message message, Object wanted) {
                return (LocalTransactionState) wanted;
            }

            @Override
            public LocalTransactionState checkLocalTransaction(MessageExt message) {
                checked.add(clients.own(message.getTopic()) + " " + Clients.body(message));
                boolean isEven = Integer.parseInt(message.getUserProperty("number")) % 2 == 0;
                return isEven ? LocalTransactionState.COMMIT_MESSAGE : LocalTransactionState.ROLLBACK_MESSAGE;
            }
        });
        producer.start();
        Map<String, Object> outcome = new TreeMap<>();
        LocalTransactionState[] states = LocalTransactionState.values();
        TreeSet<String> statuses = new TreeSet<>();
        for (int number = 0; number < 6; number++) {
            LocalTransactionState state = states[number / 2];
            Message message = clients.message("transaction", state.name().toLowerCase(), number);
            statuses.add(producer.sendMessageInTransaction(message, state).getSendStatus() + " " + state);
        }
        Clients.await(() -> got.size() >= 3 && checked.size() >= 2);
        Thread.sleep(300);
        outcome.put("statuses", statuses);
        outcome.put("got", Clients.sorted(got));
        outcome.put("checked", new TreeSet<>(checked));
        consumer.shutdown();
        producer.shutdown();
        return outcome;
    }
}
