package reput.peer;

import com.alibaba.fastjson2.JSON;
import com.alibaba.fastjson2.JSONObject;
import java.io.BufferedReader;
import java.io.InputStream;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.nio.charset.StandardCharsets;
import java.nio.file.Path;
import java.util.HashMap;
import java.util.Map;
import org.apache.rocketmq.common.message.MessageAccessor;
import org.apache.rocketmq.common.message.MessageDecoder;
import org.apache.rocketmq.common.message.MessageExtBrokerInner;
import org.apache.rocketmq.store.PutMessageResult;

/** Puts messages that stdin describes, one JSON object a line: topic, queue, body, sysFlag, properties. */
final class Putting {
    private Putting() {
    }

    static void put(Args args, InputStream in, PrintStream out) throws Exception {
        Store store = new Store(Path.of(args.position(1, "STORE")), args);
        store.open();
        try (BufferedReader lines = new BufferedReader(new InputStreamReader(in, StandardCharsets.UTF_8))) {
            for (String line = lines.readLine(); line != null; line = lines.readLine()) {
                out.println(Json.text(answer(store, JSON.parseObject(line))));
                out.flush();
            }
        }
        store.awaitDispatch();
        store.close();
    }

    private static Map<String, Object> answer(Store store, JSONObject asked) {
        try {
            PutMessageResult result = store.rocketmq.putMessage(message(asked));
            if (!result.isOk()) {
                return Json.object("status", result.getPutMessageStatus());
            }
            return Json.object("status", result.getPutMessageStatus(),
                "offset", result.getAppendMessageResult().getWroteOffset(),
                "queue_offset", result.getAppendMessageResult().getLogicsOffset());
        } catch (RuntimeException refused) {
            return Json.object("status", refused.getClass().getSimpleName());
        }
    }

    private static MessageExtBrokerInner message(JSONObject asked) {
        MessageExtBrokerInner message = new MessageExtBrokerInner();
        message.setTopic(asked.getString("topic"));
        message.setQueueId(asked.getIntValue("queue"));
        message.setBody(asked.getString("body").getBytes(StandardCharsets.UTF_8));
        message.setSysFlag(asked.getIntValue("sysFlag"));
        message.setBornTimestamp(System.currentTimeMillis());
        message.setBornHost(Writing.HOST);
        message.setStoreHost(Writing.HOST);
        Map<String, String> properties = new HashMap<>();
        JSONObject given = asked.getJSONObject("properties");
        if (given != null) {
            given.forEach((name, value) -> properties.put(name, value.toString()));
        }
        MessageAccessor.setProperties(message, properties);
        message.setTagsCode(MessageExtBrokerInner.tagsString2tagsCode(message.getTags()));
        message.setPropertiesString(MessageDecoder.messageProperties2String(properties));
        return message;
    }
}
