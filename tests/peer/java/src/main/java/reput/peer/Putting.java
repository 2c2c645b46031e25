package reput.peer;

import com.alibaba.fastjson2.JSON;
import com.alibaba.fastjson2.JSONObject;
import java.io.BufferedReader;
import java.io.InputStream;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.net.InetAddress;
import java.net.InetSocketAddress;
import java.net.UnknownHostException;
import java.nio.charset.StandardCharsets;
import java.nio.file.Path;
import java.util.Base64;
import java.util.HashMap;
import java.util.Map;
import org.apache.rocketmq.common.message.MessageAccessor;
import org.apache.rocketmq.common.message.MessageDecoder;
import org.apache.rocketmq.common.message.MessageExtBrokerInner;
import org.apache.rocketmq.store.PutMessageResult;

/**
 * Puts messages that stdin describes, one JSON object a line: topic, queue, body or bodyBase64, flag, sysFlag, properties,
 * reconsumeTimes, bornHost and storeHost ("10.0.0.1:9876", "[fd00::1]:9876"). With pauseMs it waits before it puts.
 * The line {"await": "dispatch"} waits until all messages so far are in queues and index.
 */
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

    private static Map<String, Object> answer(Store store, JSONObject asked) throws Exception {
        if (asked.containsKey("await")) {
            store.awaitDispatch();
            return Json.object("status", "DISPATCHED");
        }
        Thread.sleep(asked.getLongValue("pauseMs"));
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

    private static MessageExtBrokerInner message(JSONObject asked) throws UnknownHostException {
        MessageExtBrokerInner message = new MessageExtBrokerInner();
        message.setTopic(asked.getString("topic"));
        message.setQueueId(asked.getIntValue("queue"));
        message.setBody(asked.containsKey("bodyBase64") ? Base64.getDecoder().decode(asked.getString("bodyBase64"))
            : asked.getString("body").getBytes(StandardCharsets.UTF_8));
        message.setFlag(asked.getIntValue("flag"));
        message.setSysFlag(asked.getIntValue("sysFlag"));
        message.setReconsumeTimes(asked.getIntValue("reconsumeTimes"));
        message.setBornTimestamp(System.currentTimeMillis());
        message.setBornHost(host(asked.getString("bornHost")));
        message.setStoreHost(host(asked.getString("storeHost")));
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

    /** An address and a port; the host of all benchmarks where none is given. */
    private static InetSocketAddress host(String asked) throws UnknownHostException {
        if (asked == null) {
            return Writing.HOST;
        }
        int colon = asked.lastIndexOf(':');
        InetAddress address = InetAddress.getByName(asked.substring(0, colon));
        return new InetSocketAddress(address, Integer.parseInt(asked.substring(colon + 1)));
    }
}
