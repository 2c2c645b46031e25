package reput.clients5;

import java.nio.ByteBuffer;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.concurrent.ConcurrentLinkedQueue;
import java.util.concurrent.Semaphore;
import java.util.concurrent.atomic.AtomicLong;
import java.util.function.Supplier;
import org.apache.rocketmq.client.apis.ClientException;
import org.apache.rocketmq.client.apis.consumer.ConsumeResult;
import org.apache.rocketmq.client.apis.consumer.FilterExpression;
import org.apache.rocketmq.client.apis.consumer.MessageListener;
import org.apache.rocketmq.client.apis.consumer.PushConsumer;
import org.apache.rocketmq.client.apis.consumer.SimpleConsumer;
import org.apache.rocketmq.client.apis.message.Message;
import org.apache.rocketmq.client.apis.message.MessageView;
import org.apache.rocketmq.client.apis.producer.Producer;
import reput.clients.Measured;

/**
 * A load of one client process by gRPC: how many messages a second it sends, receives and acknowledges, and how long each
 * takes. It prints a line for each measurement, see {@link Measured}.
 *
 * Usage: ADDRESS SECONDS CONSUMED; the topics `load-send`, `load-poll`, `load-consume` and `load-receive` are there before.
 */
public final class Load {
    private static final int BODY_BYTES = 128;
    private static final int UNDER_WAY = 256;
    private static final int POLLED = 200;
    private static final int THREADS = 16;

    private final Clients clients;
    private final long seconds;

    private Load(Clients clients, long seconds) {
        this.clients = clients;
        this.seconds = seconds;
    }

    public static void main(String[] args) throws Exception {
        Load load = new Load(new Clients(args[0]), Long.parseLong(args[1]));
        try {
            load.all(Integer.parseInt(args[2]));
        } catch (Exception failed) {
            // Threads of clients would keep the process.
            failed.printStackTrace();
            System.exit(1);
        }
        System.exit(0);
    }

    private void all(int consumed) throws Exception {
        Producer producer = clients.producer("load-send");
        send(producer, THREADS, "warm-up");
        send(producer, 1, "send_1");
        send(producer, THREADS, "send_16");
        async(producer);
        poll(producer);
        fill(producer, "load-consume", consumed);
        consume(consumed);
        fill(producer, "load-receive", consumed);
        receive(consumed);
        producer.close();
    }

    private Message message(String topic, byte[] body) {
        return clients.provider.newMessageBuilder().setTopic(topic).setTag("tag").setKeys("key").setBody(body).build();
    }

    private void send(Producer producer, int threads, String name) throws Exception {
        ConcurrentLinkedQueue<Long> nanos = new ConcurrentLinkedQueue<>();
        long begin = System.nanoTime();
        long end = begin + seconds * 1_000_000_000L;
        inThreads(threads, () -> {
            for (long now = System.nanoTime(); now < end; ) {
                producer.send(message("load-send", new byte[BODY_BYTES]));
                long after = System.nanoTime();
                nanos.add(after - now);
                now = after;
            }
        });
        Measured.print(name, nanos.size(), (System.nanoTime() - begin) / 1e9, new ArrayList<>(nanos));
    }

    @FunctionalInterface
    private interface Work {
        void run() throws Exception;
    }

    private static void inThreads(int threads, Work work) throws InterruptedException {
        List<Thread> running = new ArrayList<>();
        for (int number = 0; number < threads; number++) {
            Thread thread = new Thread(() -> {
                try {
                    work.run();
                } catch (Exception failed) {
                    failed.printStackTrace();
                    System.exit(1);
                }
            });
            thread.start();
            running.add(thread);
        }
        for (Thread thread : running) {
            thread.join();
        }
    }

    /** Sends until there is nothing more to send, some at a time. */
    private static void send(Producer producer, Supplier<Message> next) throws Exception {
        Semaphore free = new Semaphore(UNDER_WAY);
        for (Message message = next.get(); message != null; message = next.get()) {
            free.acquire();
            producer.sendAsync(message).whenComplete((receipt, failed) -> {
                if (failed != null) {
                    failed.printStackTrace();
                    System.exit(1);
                }
                free.release();
            });
        }
        free.acquire(UNDER_WAY);
    }

    private void async(Producer producer) throws Exception {
        AtomicLong sent = new AtomicLong();
        long begin = System.nanoTime();
        long end = begin + seconds * 1_000_000_000L;
        send(producer, () -> {
            if (System.nanoTime() >= end) {
                return null;
            }
            sent.incrementAndGet();
            return message("load-send", new byte[BODY_BYTES]);
        });
        Measured.print("async", sent.get(), (System.nanoTime() - begin) / 1e9, List.of());
    }

    private void fill(Producer producer, String topic, int count) throws Exception {
        AtomicLong left = new AtomicLong(count);
        send(producer, () -> left.getAndDecrement() > 0 ? message(topic, new byte[BODY_BYTES]) : null);
    }

    private PushConsumer pusher(String topic, MessageListener listener) throws ClientException {
        return clients.provider.newPushConsumerBuilder()
            .setClientConfiguration(clients.configuration)
            .setConsumerGroup(topic + "-readers")
            .setSubscriptionExpressions(Map.of(topic, FilterExpression.SUB_ALL))
            .setMessageListener(listener)
            .build();
    }

    /** Messages one by one to a consumer that waits: from the send to the listener. */
    private void poll(Producer producer) throws Exception {
        ConcurrentLinkedQueue<Long> nanos = new ConcurrentLinkedQueue<>();
        PushConsumer consumer = pusher("load-poll", message -> {
            nanos.add(System.nanoTime() - message.getBody().getLong());
            return ConsumeResult.SUCCESS;
        });
        Thread.sleep(2000);
        for (int number = 0; number < POLLED; number++) {
            byte[] body = ByteBuffer.allocate(Long.BYTES).putLong(System.nanoTime()).array();
            producer.send(message("load-poll", body));
            Thread.sleep(4);
        }
        Clients.await(() -> nanos.size() >= POLLED);
        consumer.close();
        Measured.print("poll", nanos.size(), 0, new ArrayList<>(nanos));
    }

    /** A push consumer takes and acknowledges what is there, from the first message to the last. */
    private void consume(int count) throws Exception {
        AtomicLong got = new AtomicLong();
        AtomicLong first = new AtomicLong();
        AtomicLong last = new AtomicLong();
        PushConsumer consumer = pusher("load-consume", message -> {
            long now = System.nanoTime();
            first.compareAndSet(0, now);
            if (got.incrementAndGet() >= count) {
                last.compareAndSet(0, now);
            }
            return ConsumeResult.SUCCESS;
        });
        if (!Clients.await(() -> last.get() > 0)) {
            throw new IllegalStateException("consumed only " + got.get() + " of " + count);
        }
        Measured.print("consume", count, (last.get() - first.get()) / 1e9, List.of());
        consumer.close();
    }

    /** A simple consumer receives 32 at a time and acknowledges each, in some threads. */
    private void receive(int count) throws Exception {
        SimpleConsumer consumer = clients.consumer("load-receive", "*");
        AtomicLong left = new AtomicLong(count);
        AtomicLong last = new AtomicLong();
        long begin = System.nanoTime();
        long limit = begin + Clients.LIMIT_MS * 1_000_000;
        inThreads(THREADS, () -> {
            while (left.get() > 0 && System.nanoTime() < limit) {
                List<MessageView> got = consumer.receive(32, Duration.ofMinutes(5));
                for (MessageView one : got) {
                    consumer.ack(one);
                }
                if (left.addAndGet(-got.size()) <= 0) {
                    last.compareAndSet(0, System.nanoTime());
                }
            }
        });
        if (left.get() > 0) {
            throw new IllegalStateException("received " + left.get() + " less than " + count);
        }
        Measured.print("receive", count, (last.get() - begin) / 1e9, List.of());
        consumer.close();
    }
}
