package reput.clients;

import java.nio.ByteBuffer;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.ConcurrentLinkedQueue;
import java.util.concurrent.Semaphore;
import java.util.concurrent.atomic.AtomicLong;
import org.apache.rocketmq.client.consumer.DefaultMQPushConsumer;
import org.apache.rocketmq.client.consumer.listener.ConsumeConcurrentlyStatus;
import org.apache.rocketmq.client.consumer.listener.MessageListenerConcurrently;
import org.apache.rocketmq.client.producer.DefaultMQProducer;
import org.apache.rocketmq.client.producer.SendCallback;
import org.apache.rocketmq.client.producer.SendResult;
import org.apache.rocketmq.common.message.Message;
import org.apache.rocketmq.common.message.MessageExt;

/**
 * A load of one client process: how many messages a second it sends and consumes, and how long each takes. It prints a
 * line for each measurement, when it ends, see {@link Measured}.
 *
 * Usage: ADDRESS PREFIX SECONDS CONSUMED; the topics `send`, `batch` and `poll` with that prefix are there before.
 */
public final class Load {
    private static final int BODY_BYTES = 128;
    private static final int BATCH = 100;
    private static final int UNDER_WAY = 256;

    private final Clients clients;
    private final long seconds;

    private Load(Clients clients, long seconds) {
        this.clients = clients;
        this.seconds = seconds;
    }

    public static void main(String[] args) throws Exception {
        Load load = new Load(new Clients(args[0], args[1]), Long.parseLong(args[2]));
        DefaultMQProducer producer = load.clients.producer("load");
        try {
            load.all(producer, Long.parseLong(args[3]));
        } catch (Exception failed) {
            // Threads of clients would keep the process.
            failed.printStackTrace();
            System.exit(1);
        }
        System.exit(0);
    }

    private void all(DefaultMQProducer producer, long consumed) throws Exception {
        send(producer, 16, "warm-up");
        send(producer, 1, "send_1");
        send(producer, 16, "send_16");
        async(producer);
        batches(producer, consumed);
        poll(producer);
        consume(consumed);
        producer.shutdown();
    }

    private Message message(String topic) {
        return new Message(clients.name(topic), "tag", "key", new byte[BODY_BYTES]);
    }

    private void send(DefaultMQProducer producer, int threads, String name) throws Exception {
        ConcurrentLinkedQueue<Long> nanos = new ConcurrentLinkedQueue<>();
        List<Thread> running = new ArrayList<>();
        long begin = System.nanoTime();
        long end = begin + seconds * 1_000_000_000L;
        for (int number = 0; number < threads; number++) {
            Thread thread = new Thread(() -> {
                List<Long> own = new ArrayList<>();
                try {
                    for (long now = System.nanoTime(); now < end; ) {
                        producer.send(message("send"));
                        long after = System.nanoTime();
                        own.add(after - now);
                        now = after;
                    }
                } catch (Exception failed) {
                    failed.printStackTrace();
                    System.exit(1);
                }
                nanos.addAll(own);
            });
            thread.start();
            running.add(thread);
        }
        for (Thread thread : running) {
            thread.join();
        }
        Measured.print(name, nanos.size(), (System.nanoTime() - begin) / 1e9, new ArrayList<>(nanos));
    }

    private void async(DefaultMQProducer producer) throws Exception {
        Semaphore free = new Semaphore(UNDER_WAY);
        AtomicLong sent = new AtomicLong();
        long begin = System.nanoTime();
        while (System.nanoTime() < begin + seconds * 1_000_000_000L) {
            free.acquire();
            producer.send(message("send"), new SendCallback() {
                @Override
                public void onSuccess(SendResult result) {
                    sent.incrementAndGet();
                    free.release();
                }

                @Override
                public void onException(Throwable failed) {
                    failed.printStackTrace();
                    System.exit(1);
                }
            });
        }
        free.acquire(UNDER_WAY);
        Measured.print("async", sent.get(), (System.nanoTime() - begin) / 1e9, List.of());
    }

    /** Sends batches for some seconds, and then, not measured, as many as will be consumed. */
    private void batches(DefaultMQProducer producer, long least) throws Exception {
        long sent = 0;
        long begin = System.nanoTime();
        while (System.nanoTime() < begin + seconds * 1_000_000_000L) {
            sent += batch(producer);
        }
        Measured.print("batch", sent, (System.nanoTime() - begin) / 1e9, List.of());
        while (sent < least) {
            sent += batch(producer);
        }
    }

    private int batch(DefaultMQProducer producer) throws Exception {
        List<Message> batch = new ArrayList<>(BATCH);
        for (int number = 0; number < BATCH; number++) {
            batch.add(message("batch"));
        }
        producer.send(batch);
        return BATCH;
    }

    /** Messages one by one to a consumer whose pulls are held: from the send to the listener. */
    private void poll(DefaultMQProducer producer) throws Exception {
        ConcurrentLinkedQueue<Long> nanos = new ConcurrentLinkedQueue<>();
        DefaultMQPushConsumer consumer = clients.pusher("pollers");
        consumer.subscribe(clients.name("poll"), "*");
        consumer.registerMessageListener((MessageListenerConcurrently) (messages, context) -> {
            long now = System.nanoTime();
            messages.forEach(one -> nanos.add(now - ByteBuffer.wrap(one.getBody()).getLong()));
            return ConsumeConcurrentlyStatus.CONSUME_SUCCESS;
        });
        consumer.start();
        Thread.sleep(2000);
        int count = 500;
        for (int number = 0; number < count; number++) {
            byte[] body = ByteBuffer.allocate(Long.BYTES).putLong(System.nanoTime()).array();
            producer.send(new Message(clients.name("poll"), body));
            Thread.sleep(4);
        }
        Clients.await(() -> nanos.size() >= count);
        consumer.shutdown();
        Measured.print("poll", count, 0, new ArrayList<>(nanos));
    }

    /** Reads what `batch` has sent, from the first message to the last of so many. */
    private void consume(long most) throws Exception {
        AtomicLong got = new AtomicLong();
        AtomicLong first = new AtomicLong();
        AtomicLong last = new AtomicLong();
        DefaultMQPushConsumer consumer = clients.pusher("load-readers");
        consumer.setPullBatchSize(32);
        consumer.setConsumeMessageBatchMaxSize(32);
        consumer.subscribe(clients.name("batch"), "*");
        consumer.registerMessageListener((MessageListenerConcurrently) (messages, context) -> {
            long now = System.nanoTime();
            first.compareAndSet(0, now);
            if (got.addAndGet(messages.size()) >= most) {
                last.compareAndSet(0, now);
            }
            return ConsumeConcurrentlyStatus.CONSUME_SUCCESS;
        });
        consumer.start();
        if (!Clients.await(() -> last.get() > 0)) {
            throw new IllegalStateException("consumed only " + got.get());
        }
        Measured.print("consume", most, (last.get() - first.get()) / 1e9, List.of());
        consumer.shutdown();
    }
}
