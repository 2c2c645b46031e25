package reput.peer;

import java.io.BufferedReader;
import java.io.InputStream;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.Base64;
import java.util.List;
import java.util.Map;
import org.apache.rocketmq.common.message.MessageDecoder;
import org.apache.rocketmq.common.message.MessageExt;

/** What RocketMQ's client makes of batches in one record: each a line of base64 on stdin. */
final class Unwrapping {
    private Unwrapping() {
    }

    static void unwrap(InputStream in, PrintStream out) throws Exception {
        BufferedReader lines = new BufferedReader(new InputStreamReader(in, StandardCharsets.UTF_8));
        for (String line = lines.readLine(); line != null; line = lines.readLine()) {
            MessageExt whole = MessageDecoder.decode(ByteBuffer.wrap(Base64.getDecoder().decode(line)), true, false);
            List<MessageExt> messages = new ArrayList<>();
            try {
                MessageDecoder.decodeMessage(whole, messages);
            } catch (Throwable problem) {
                out.println(Json.text(Json.object("error", problem.getClass().getSimpleName())));
                continue;
            }
            out.println(Json.text(Json.object("messages", messages.stream().map(Unwrapping::told).toList())));
        }
    }

    private static Map<String, Object> told(MessageExt message) {
        return Json.object("topic", message.getTopic(), "queue", message.getQueueId(),
            "queue_offset", message.getQueueOffset(), "flag", message.getFlag(), "sys_flag", message.getSysFlag(),
            "body", Base64.getEncoder().encodeToString(message.getBody()), "properties", message.getProperties(),
            "born", message.getBornTimestamp(), "stored", message.getStoreTimestamp(),
            "offset", message.getCommitLogOffset());
    }
}
