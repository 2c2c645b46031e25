package reput.clients;

import org.apache.rocketmq.client.consumer.DefaultMQPushConsumer;

/**
 * A further member of the group of the scenario `rebalance`, in a process that a test cuts off and kills. It ends with stdin.
 *
 * Usage: ADDRESS PREFIX
 */
public final class Member {
    private Member() {
    }

    public static void main(String[] args) throws Exception {
        Clients clients = new Clients(args[0], args[1]);
        DefaultMQPushConsumer consumer = clients.pusher("rebalance-group");
        consumer.setInstanceName(clients.name("member2"));
        // By default a client whose connection was lost says after up to 30 s that it is there again.
        consumer.setHeartbeatBrokerInterval(Clients.POLL_MS);
        consumer.subscribe(clients.name("rebalance"), "*");
        Pushing.noting(clients, consumer);
        consumer.start();
        System.in.read();
        System.exit(0);
    }
}
