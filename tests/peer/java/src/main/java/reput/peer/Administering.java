package reput.peer;

import com.alibaba.fastjson2.JSONArray;
import com.alibaba.fastjson2.JSONObject;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.TreeMap;
import java.util.TreeSet;
import org.apache.rocketmq.broker.BrokerController;
import org.apache.rocketmq.broker.lite.AbstractLiteLifecycleManager;
import org.apache.rocketmq.common.Pair;
import org.apache.rocketmq.common.TopicConfig;
import org.apache.rocketmq.remoting.protocol.subscription.SubscriptionGroupConfig;
import org.apache.rocketmq.store.queue.CombineConsumeQueueStore;
import org.apache.rocketmq.store.queue.ConsumeQueueStoreInterface;
import org.apache.rocketmq.store.queue.RocksDBConsumeQueueStore;
import org.apache.rocketmq.store.timer.TimerMetrics;
import org.rocksdb.RocksDBException;

/**
 * What an administrator and consumers ask of a whole broker, as lines of a turn.
 *
 * <pre>
 * {"new-topic": NAME, "queues": N, "attributes": {"+NAME": VALUE}}   {"delete-topic": NAME}   {"new-group": NAME}
 * {"commit": [GROUP, TOPIC, QUEUE, OFFSET]}  {"persist": []}          offsets, and all configuration to the disk
 * {"offset": [GROUP, TOPIC, QUEUE]}  {"topics": []}  {"groups": []}  {"timers": []}  {"queued": []}   questions
 * {"lite": PARENT}  {"expired": []}     lite topics with their messages, and those that the broker would delete now
 * </pre>
 */
final class Administering {
    private static final String CLIENT = "127.0.0.1";

    private Administering() {
    }

    /** Does what a line says, or returns null if that is not for an administrator. */
    static Map<String, Object> answer(BrokerController broker, JSONObject asked) throws Exception {
        String kind = asked.keySet().iterator().next();
        switch (kind) {
            case "new-topic":
                return newTopic(broker, asked);
            case "delete-topic":
                return deleteTopic(broker, asked.getString(kind));
            case "new-group":
                SubscriptionGroupConfig group = new SubscriptionGroupConfig();
                group.setGroupName(asked.getString(kind));
                broker.getSubscriptionGroupManager().updateSubscriptionGroupConfig(group);
                return Json.object(kind, asked.getString(kind));
            case "commit":
                JSONArray of = asked.getJSONArray(kind);
                broker.getConsumerOffsetManager().commitOffset(CLIENT, of.getString(0), of.getString(1), of.getIntValue(2),
                    of.getLongValue(3));
                return Json.object(kind, of);
            case "persist":
                broker.getConsumerOffsetManager().persist();
                broker.getTopicConfigManager().persist();
                broker.getSubscriptionGroupManager().persist();
                return Json.object(kind, List.of());
            case "offset":
                JSONArray place = asked.getJSONArray(kind);
                return Json.object(kind, place, "at", broker.getConsumerOffsetManager().queryOffset(place.getString(0),
                    place.getString(1), place.getIntValue(2)));
            case "topics":
                return Json.object(kind, topics(broker));
            case "groups":
                return Json.object(kind,
                    List.copyOf(new TreeSet<>(broker.getSubscriptionGroupManager().getSubscriptionGroupTable().keySet())));
            case "timers":
                return Json.object(kind, timers(broker));
            case "queued":
                return Json.object(kind, queued(broker));
            case "lite":
                return Json.object(kind, asked.getString(kind), "topics", lite(broker, asked.getString(kind)));
            case "expired":
                return Json.object(kind, expired(broker));
            default:
                return null;
        }
    }

    private static Map<String, Object> newTopic(BrokerController broker, JSONObject asked) {
        TopicConfig topic = new TopicConfig(asked.getString("new-topic"));
        topic.setReadQueueNums(asked.getIntValue("queues"));
        topic.setWriteQueueNums(asked.getIntValue("queues"));
        asked.getJSONObject("attributes").forEach((name, value) -> topic.getAttributes().put(name, value.toString()));
        broker.getTopicConfigManager().updateTopicConfig(topic);
        return Json.object("new-topic", topic.getTopicName());
    }

    /** Deletes a topic as `AdminBrokerProcessor.deleteTopicInBroker` does. */
    private static Map<String, Object> deleteTopic(BrokerController broker, String topic) {
        broker.getTopicConfigManager().deleteTopicConfig(topic);
        broker.getTopicQueueMappingManager().delete(topic);
        broker.getConsumerOffsetManager().cleanOffsetByTopic(topic);
        broker.getPopInflightMessageCounter().clearInFlightMessageNumByTopicName(topic);
        broker.getMessageStore().deleteTopics(Set.of(topic));
        return Json.object("delete-topic", topic);
    }

    private static List<Object> topics(BrokerController broker) {
        List<Object> found = new ArrayList<>();
        new TreeMap<>(broker.getTopicConfigManager().getTopicConfigTable()).values().forEach(topic ->
            found.add(Json.object("topic", topic.getTopicName(), "read", topic.getReadQueueNums(),
                "write", topic.getWriteQueueNums(), "perm", topic.getPerm(), "type", topic.getTopicMessageType())));
        return found;
    }

    /** The timers that the broker has taken out of the queue of timers and put into its wheel, or into RocksDB. */
    private static long timers(BrokerController broker) {
        TimerMetrics metrics = broker.getTimerMessageStore().getTimerMetrics();
        return metrics.getTimingCount().values().stream().mapToLong(topic -> topic.getCount().get()).sum();
    }

    /** The place in the log up to which queues in RocksDB have entries: they come later than dispatching says. */
    private static long queued(BrokerController broker) throws RocksDBException {
        ConsumeQueueStoreInterface queues = broker.getMessageStore().getQueueStore();
        if (queues instanceof CombineConsumeQueueStore both) {
            queues = both.getRocksDBConsumeQueueStore();
        }
        return queues instanceof RocksDBConsumeQueueStore database ? database.getMaxPhyOffsetInConsumeQueue() : Long.MAX_VALUE;
    }

    private static Map<String, Object> lite(BrokerController broker, String parent) {
        AbstractLiteLifecycleManager lite = broker.getLiteLifecycleManager();
        Map<String, Object> found = new TreeMap<>();
        lite.collectByParentTopic(parent).forEach(name -> found.put(name, lite.getMaxOffsetInQueue(name)));
        return found;
    }

    private static List<String> expired(BrokerController broker) {
        broker.getLiteLifecycleManager().updateMetadata();
        return broker.getLiteLifecycleManager().collectExpiredLiteTopic().stream().map(Pair::getObject2).sorted().toList();
    }
}
