package reput.clients;

import java.io.BufferedReader;
import java.io.InputStreamReader;
import org.apache.rocketmq.client.consumer.DefaultMQPushConsumer;
import org.apache.rocketmq.client.consumer.listener.ConsumeConcurrentlyStatus;
import org.apache.rocketmq.client.consumer.listener.MessageListenerConcurrently;
import org.apache.rocketmq.client.producer.LocalTransactionState;
import org.apache.rocketmq.client.producer.TransactionListener;
import org.apache.rocketmq.client.producer.TransactionMQProducer;
import org.apache.rocketmq.common.message.Message;
import org.apache.rocketmq.common.message.MessageAccessor;
import org.apache.rocketmq.common.message.MessageExt;

/**
 * A push consumer, transactions, a delay and a timer that begin with one broker and end with the next. It sends 10
 * messages, one of delay level 2, one with a timer, and 4 in transactions that stay open, and says `sent`. After a line
 * on stdin, when another broker serves, it sends 10 more and says `sent` again; it ends with stdin. What it is given is a
 * line `got BODY`; a question about a transaction is `asked BODY`.
 *
 * Usage: ADDRESS PREFIX DELAY_MS; the topic `spanning` with that prefix is there before.
 */
public final class Spanning {
    private static final int COUNT = 10;

    private Spanning() {
    }

    public static void main(String[] args) throws Exception {
        Clients clients = new Clients(args[0], args[1]);
        DefaultMQPushConsumer consumer = clients.pusher("spanning-group");
        consumer.setPersistConsumerOffsetInterval(100);
        consumer.setPullTimeDelayMillsWhenException(300);
        consumer.setHeartbeatBrokerInterval(Clients.POLL_MS);
        consumer.subscribe(clients.name("spanning"), "*");
        consumer.registerMessageListener((MessageListenerConcurrently) (messages, context) -> {
            messages.forEach(one -> say("got " + Clients.body(one)));
            return ConsumeConcurrentlyStatus.CONSUME_SUCCESS;
        });
        consumer.start();
        TransactionMQProducer producer = producer(clients);
        for (int number = 0; number < COUNT; number++) {
            producer.send(clients.message("spanning", "before", number));
        }
        Message delayed = clients.message("spanning", "delayed", 0);
        delayed.setDelayTimeLevel(2);
        producer.send(delayed);
        Message timed = clients.message("spanning", "timed", 0);
        MessageAccessor.putProperty(timed, "TIMER_DELAY_MS", args[2]);
        producer.send(timed);
        for (int number = 0; number < 4; number++) {
            producer.sendMessageInTransaction(clients.message("spanning", "half", number), null);
        }
        say("sent");
        BufferedReader lines = new BufferedReader(new InputStreamReader(System.in));
        lines.readLine();
        for (int number = 0; number < COUNT; number++) {
            send(producer, clients.message("spanning", "after", number));
        }
        say("sent");
        lines.readLine();
        System.exit(0);
    }

    private static TransactionMQProducer producer(Clients clients) throws Exception {
        TransactionMQProducer producer = new TransactionMQProducer(clients.name("spanning-senders"));
        producer.setNamesrvAddr(clients.address);
        producer.setPollNameServerInterval(Clients.POLL_MS);
        producer.setHeartbeatBrokerInterval(Clients.POLL_MS);
        producer.setSendMsgTimeout(20_000);
        producer.setTransactionListener(new TransactionListener() {
            @Override
            public LocalTransactionState executeLocalTransaction(Message message, Object nothing) {
                return LocalTransactionState.UNKNOW;
            }

            @Override
            public LocalTransactionState checkLocalTransaction(MessageExt message) {
                say("asked " + Clients.body(message));
                boolean isEven = Integer.parseInt(message.getUserProperty("number")) % 2 == 0;
                return isEven ? LocalTransactionState.COMMIT_MESSAGE : LocalTransactionState.ROLLBACK_MESSAGE;
            }
        });
        producer.start();
        return producer;
    }

    /** Sends until a broker takes it: the client learns of the other broker with the next route. */
    private static void send(TransactionMQProducer producer, Message message) throws Exception {
        long end = System.currentTimeMillis() + Clients.LIMIT_MS;
        while (true) {
            try {
                producer.send(message);
                return;
            } catch (Exception brokerIsGone) {
                if (System.currentTimeMillis() > end) {
                    throw brokerIsGone;
                }
                Thread.sleep(100);
            }
        }
    }

    private static synchronized void say(String line) {
        System.out.println(line);
    }
}
