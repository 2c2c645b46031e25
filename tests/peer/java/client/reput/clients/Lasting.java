package reput.clients;

import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.util.concurrent.atomic.AtomicBoolean;
import org.apache.rocketmq.client.consumer.DefaultMQPushConsumer;
import org.apache.rocketmq.client.consumer.listener.ConsumeOrderlyStatus;
import org.apache.rocketmq.client.consumer.listener.MessageListenerOrderly;
import org.apache.rocketmq.client.producer.DefaultMQProducer;
import org.apache.rocketmq.client.producer.SendResult;
import org.apache.rocketmq.common.message.MessageExt;

/**
 * A producer and a consumer that outlast their broker. A line for each message that a broker has acknowledged, `sent QUEUE
 * OFFSET BODY`, and for each that was delivered, `got QUEUE OFFSET BODY`. After a line on stdin it sends no more and says
 * `done`; it ends with stdin.
 *
 * Usage: ADDRESS PREFIX; the topic `lasting` with that prefix is there before.
 */
public final class Lasting {
    private static final AtomicBoolean IS_ENOUGH = new AtomicBoolean();

    private Lasting() {
    }

    public static void main(String[] args) throws Exception {
        Clients clients = new Clients(args[0], args[1]);
        DefaultMQPushConsumer consumer = clients.pusher("lasting-group");
        consumer.setPersistConsumerOffsetInterval(100);
        consumer.setPullTimeDelayMillsWhenException(300);
        consumer.subscribe(clients.name("lasting"), "*");
        consumer.registerMessageListener((MessageListenerOrderly) (messages, context) -> {
            for (MessageExt one : messages) {
                say("got " + one.getQueueId() + " " + one.getQueueOffset() + " " + Clients.body(one));
            }
            return ConsumeOrderlyStatus.SUCCESS;
        });
        consumer.start();
        DefaultMQProducer producer = clients.producer("lasting-senders");
        producer.setRetryTimesWhenSendFailed(0);
        producer.setSendMsgTimeout(1000);
        Thread sender = new Thread(() -> send(clients, producer));
        sender.start();
        BufferedReader lines = new BufferedReader(new InputStreamReader(System.in));
        lines.readLine();
        IS_ENOUGH.set(true);
        sender.join();
        say("done");
        lines.readLine();
        System.exit(0);
    }

    private static void send(Clients clients, DefaultMQProducer producer) {
        for (int number = 0; !IS_ENOUGH.get(); number++) {
            try {
                SendResult sent = producer.send(clients.message("lasting", "n", number));
                say("sent " + sent.getMessageQueue().getQueueId() + " " + sent.getQueueOffset() + " n-" + number);
            } catch (Exception brokerIsGone) {
                pause();
            }
        }
    }

    private static void pause() {
        try {
            Thread.sleep(20);
        } catch (InterruptedException ended) {
            IS_ENOUGH.set(true);
        }
    }

    private static synchronized void say(String line) {
        System.out.println(line);
    }
}
