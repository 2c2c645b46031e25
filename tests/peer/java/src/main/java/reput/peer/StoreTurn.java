package reput.peer;

import com.alibaba.fastjson2.JSONObject;
import java.nio.file.Path;
import org.apache.rocketmq.common.message.MessageDecoder;
import org.apache.rocketmq.common.message.MessageExtBrokerInner;
import org.apache.rocketmq.store.MessageStore;
import org.apache.rocketmq.store.PutMessageResult;

/** A turn of the store code alone, in the version that the other commands use. */
final class StoreTurn extends Turn {
    private final Store store;

    StoreTurn(Args args) throws Exception {
        store = new Store(Path.of(args.position(1, "STORE")), args);
    }

    @Override
    MessageStore open() throws Exception {
        store.open();
        return store.rocketmq;
    }

    @Override
    PutMessageResult put(MessageStore rocketmq, JSONObject asked) {
        MessageExtBrokerInner message = new MessageExtBrokerInner();
        message.setPropertiesString(MessageDecoder.messageProperties2String(fill(message, asked)));
        message.setTagsCode(MessageExtBrokerInner.tagsString2tagsCode(message.getTags()));
        return rocketmq.putMessage(message);
    }

    @Override
    void awaitDispatch(MessageStore rocketmq) throws Exception {
        store.awaitDispatch();
    }

    @Override
    void close() {
        store.close();
    }
}
