package reput.clients5;

import java.util.List;
import java.util.Map;
import java.util.TreeMap;
import org.apache.rocketmq.client.apis.consumer.SimpleConsumer;
import org.apache.rocketmq.client.apis.message.MessageView;
import org.apache.rocketmq.client.apis.producer.Producer;
import org.apache.rocketmq.client.apis.producer.SendReceipt;
import org.apache.rocketmq.client.apis.producer.Transaction;
import org.apache.rocketmq.client.apis.producer.TransactionResolution;

/** Messages that come later than they are sent. */
final class Later {
    private static final long DELAY_MS = 3_000;
    /** The time in which a message is recalled, also on a busy machine. */
    private static final long RECALL_MS = 25_000;

    private Later() {
    }

    /** A message with a time does not come before it. */
    static Map<String, Object> delay(Clients clients) throws Exception {
        Producer producer = clients.producer("delay");
        SimpleConsumer consumer = clients.consumer("delay", "*");
        // RocketMQ rounds the time down to a second.
        long due = (System.currentTimeMillis() + DELAY_MS) / 1000 * 1000;
        producer.send(clients.message("delay", "later").setTag("t").setDeliveryTimestamp(due).build());
        List<MessageView> got = Clients.take(consumer, 1);
        Map<String, Object> outcome = new TreeMap<>();
        outcome.put("too early", System.currentTimeMillis() < due - 1000);
        outcome.put("got", Clients.sorted(got));
        outcome.put("then", Clients.then(consumer));
        consumer.close();
        producer.close();
        return outcome;
    }

    /** A message that is recalled before its time does not come. */
    static Map<String, Object> recall(Clients clients) throws Exception {
        Producer producer = clients.producer("recall");
        long due = System.currentTimeMillis() + RECALL_MS;
        SendReceipt gone = producer.send(clients.message("recall", "gone").setDeliveryTimestamp(due).build());
        producer.send(clients.message("recall", "kept").setDeliveryTimestamp(due).build());
        Map<String, Object> outcome = new TreeMap<>();
        outcome.put("same id", producer.recallMessage("recall", gone.getRecallHandle()).getMessageId().equals(gone.getMessageId()));
        SimpleConsumer consumer = clients.consumer("recall", "*");
        outcome.put("got", Clients.sorted(Clients.take(consumer, 1)));
        outcome.put("then", Clients.then(consumer));
        consumer.close();
        producer.close();
        return outcome;
    }

    /** Transactions that are committed come, also when the broker has to ask; those that are rolled back do not. */
    static Map<String, Object> transaction(Clients clients) throws Exception {
        Producer producer = clients.provider.newProducerBuilder()
            .setClientConfiguration(clients.configuration)
            .setTopics("transaction")
            .setTransactionChecker(message -> Clients.body(message).endsWith("commit") ? TransactionResolution.COMMIT : TransactionResolution.ROLLBACK)
            .build();
        for (String end : List.of("commit", "rollback", "asked commit", "asked rollback")) {
            Transaction transaction = producer.beginTransaction();
            producer.send(clients.message("transaction", end).setKeys(end.replace(" ", "-")).build(), transaction);
            if (end.equals("commit")) {
                transaction.commit();
            } else if (end.equals("rollback")) {
                transaction.rollback();
            }
        }
        SimpleConsumer consumer = clients.consumer("transaction", "*");
        Map<String, Object> outcome = new TreeMap<>();
        outcome.put("got", Clients.sorted(Clients.take(consumer, 2)));
        outcome.put("then", Clients.then(consumer));
        consumer.close();
        producer.close();
        return outcome;
    }
}
