package reput.clients;

import java.io.BufferedReader;
import java.io.ByteArrayOutputStream;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.lang.reflect.Method;
import java.nio.charset.StandardCharsets;
import java.util.Arrays;
import java.util.LinkedHashMap;
import java.util.Map;
import java.util.Queue;
import org.apache.rocketmq.client.consumer.DefaultMQPushConsumer;
import org.apache.rocketmq.client.producer.DefaultMQProducer;
import org.apache.rocketmq.client.producer.SendResult;
import org.apache.rocketmq.common.message.MessageQueue;
import org.apache.rocketmq.remoting.RPCHook;

/**
 * Runs commands of mqadmin, a line of stdin each: a name for it, and its words, separated by tabs. Each prints one line:
 * {"command": name, "output": text}. The words OFFSET_ID and UNIQUE_ID become the ids of a message. Meanwhile the group `admin-group` has read the topic `admin`, and is online.
 */
final class Admin {
    private Admin() {
    }

    static void run(Clients clients) throws Exception {
        BufferedReader lines = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        String line = lines.readLine();
        if (line == null) {
            return;
        }
        DefaultMQProducer producer = clients.producer("admin-senders");
        SendResult sent = null;
        for (int number = 0; number < 10; number++) {
            MessageQueue queue = producer.fetchPublishMessageQueues(clients.name("admin")).get(number % 2);
            sent = producer.send(clients.message("admin", "counted", number), queue);
        }
        DefaultMQPushConsumer consumer = clients.pusher("admin-group");
        consumer.subscribe(clients.name("admin"), "*");
        consumer.setPersistConsumerOffsetInterval(100);
        Queue<Object> got = Pushing.noting(clients, consumer);
        consumer.start();
        Clients.await(() -> got.size() >= 10);
        // The listener has noted the last message a moment before it counts as consumed.
        Thread.sleep(500);
        consumer.getDefaultMQPushConsumerImpl().persistConsumerOffset();
        Thread.sleep(500);
        // Only the newer client comes with these tools.
        Class<?> tools = Class.forName("org.apache.rocketmq.tools.command.MQAdminStartup");
        Method command = tools.getMethod("main0", String[].class, RPCHook.class);
        for (; line != null; line = lines.readLine()) {
            Map<String, Object> answer = new LinkedHashMap<>();
            String[] words = line.split("\t");
            answer.put("command", words[0]);
            for (int at = 1; at < words.length; at++) {
                words[at] = words[at].equals("OFFSET_ID") ? sent.getOffsetMsgId() : words[at].equals("UNIQUE_ID") ? sent.getMsgId() : words[at];
            }
            answer.put("output", output(command, Arrays.copyOfRange(words, 1, words.length)));
            System.out.println(Json.of(answer));
        }
        consumer.shutdown();
        producer.shutdown();
    }

    private static String output(Method command, String[] words) throws Exception {
        PrintStream out = System.out;
        PrintStream errors = System.err;
        ByteArrayOutputStream text = new ByteArrayOutputStream();
        PrintStream into = new PrintStream(text, true, StandardCharsets.UTF_8);
        System.setOut(into);
        System.setErr(into);
        try {
            command.invoke(null, words, null);
        } finally {
            System.setOut(out);
            System.setErr(errors);
        }
        return text.toString(StandardCharsets.UTF_8);
    }
}
