package reput.clients5;

import org.apache.rocketmq.client.apis.consumer.SimpleConsumer;
import org.apache.rocketmq.client.apis.message.MessageView;

/**
 * Takes the messages of a topic until the process is killed; a line for each that comes, and each that is acked: a JSON
 * list of the time (ms), what it was, the body and the number of the try.
 *
 * Usage: ADDRESS.
 */
public final class Taking {
    private Taking() {
    }

    private static void say(String what, MessageView message) {
        System.out.printf(
            "[%d, \"%s\", \"%s\", %d]%n",
            System.currentTimeMillis(), what, Clients.body(message), message.getDeliveryAttempt());
    }

    public static void main(String[] args) throws Exception {
        SimpleConsumer consumer = new Clients(args[0]).consumer("taken", "*");
        while (true) {
            try {
                for (MessageView message : consumer.receive(8, Clients.LEASE)) {
                    say("got", message);
                    // The lease of some ends.
                    if (message.getDeliveryAttempt() > 1 || !Clients.body(message).endsWith("7")) {
                        consumer.ack(message);
                        say("acked", message);
                    }
                }
            } catch (Exception error) {
                // A broker that is killed meanwhile does not answer; then the message comes again.
                Thread.sleep(200);
            }
        }
    }
}
