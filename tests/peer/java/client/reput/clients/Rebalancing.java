package reput.clients;

import java.util.ArrayList;
import java.util.Collections;
import java.util.List;
import java.util.Map;
import java.util.Queue;
import java.util.TreeMap;
import java.util.TreeSet;
import org.apache.rocketmq.client.consumer.DefaultMQPushConsumer;
import org.apache.rocketmq.client.producer.DefaultMQProducer;
import org.apache.rocketmq.common.message.MessageQueue;

/** Consumers of one group that share queues anew when one comes, goes, or is gone without a word. */
final class Rebalancing {
    private Rebalancing() {
    }

    /**
     * Two consumers come, and one goes. Then a member in another process comes (`Member`), which the test cuts off, lets
     * come back, and kills: each time the queues are shared anew.
     */
    static Map<String, Object> rebalance(Clients clients) throws Exception {
        Map<String, Object> outcome = new TreeMap<>();
        List<DefaultMQPushConsumer> consumers = new ArrayList<>();
        List<Queue<Object>> got = new ArrayList<>();
        for (int number = 0; number < 2; number++) {
            DefaultMQPushConsumer consumer = clients.pusher("rebalance-group");
            consumer.setInstanceName(clients.name("member") + number);
            consumer.subscribe(clients.name("rebalance"), "*");
            got.add(Pushing.noting(clients, consumer));
            consumer.start();
            consumers.add(consumer);
            int members = number + 1;
            Clients.await(() -> shares(clients, consumers).equals(Collections.nCopies(members, 4 / members)));
            outcome.put("after " + members, shares(clients, consumers).toString());
        }
        DefaultMQProducer producer = clients.producer("rebalance-senders");
        for (int number = 0; number < 40; number++) {
            producer.send(clients.message("rebalance", "shared", number));
        }
        Clients.await(() -> got.get(0).size() + got.get(1).size() >= 40);
        outcome.put("both got", !got.get(0).isEmpty() && !got.get(1).isEmpty());
        consumers.remove(1).shutdown();
        Clients.await(() -> shares(clients, consumers).equals(List.of(4)));
        outcome.put("one left", shares(clients, consumers).toString());
        outcome.put("another came", Clients.await(() -> shares(clients, consumers).equals(List.of(2))));
        outcome.put("it was cut off", Clients.await(() -> shares(clients, consumers).equals(List.of(4))));
        outcome.put("it came back", Clients.await(() -> shares(clients, consumers).equals(List.of(2))));
        outcome.put("it was killed", Clients.await(() -> shares(clients, consumers).equals(List.of(4))));
        for (int number = 40; number < 60; number++) {
            producer.send(clients.message("rebalance", "shared", number));
        }
        Clients.await(() -> got.get(0).size() + got.get(1).size() >= 60);
        List<Object> all = new ArrayList<>(got.get(0));
        all.addAll(got.get(1));
        outcome.put("got", new TreeSet<>(Clients.sorted(all)));
        producer.shutdown();
        consumers.get(0).shutdown();
        return outcome;
    }

    private static List<Integer> shares(Clients clients, List<DefaultMQPushConsumer> consumers) {
        List<Integer> shares = new ArrayList<>();
        for (DefaultMQPushConsumer consumer : consumers) {
            int own = 0;
            for (MessageQueue queue : consumer.getDefaultMQPushConsumerImpl().getRebalanceImpl().getProcessQueueTable().keySet()) {
                own += queue.getTopic().equals(clients.name("rebalance")) ? 1 : 0;
            }
            shares.add(own);
        }
        return shares;
    }
}
