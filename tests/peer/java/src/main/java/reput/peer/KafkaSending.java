package reput.peer;

import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.admin.ListOffsetsResult.ListOffsetsResultInfo;
import org.apache.kafka.clients.admin.NewTopic;
import org.apache.kafka.clients.admin.OffsetSpec;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.serialization.ByteArraySerializer;

/**
 * Kafka's own client in the comparison by topics. Single: a batch of its own for each record, 256 under way. Batch: the client
 * gathers records of a partition as it does by default, and as many are under way as RocketMQ's client has in its batches. Else
 * the producer has its defaults.
 */
public final class KafkaSending extends TopicsTurn {
    private static final int UNDER_WAY = 256;
    private static final int GATHERED = UNDER_WAY * BATCH;

    private final String address;
    private final UnderWay single = new UnderWay(UNDER_WAY);
    private final UnderWay gathered = new UnderWay(GATHERED);
    private Admin admin;
    private KafkaProducer<byte[], byte[]> oneByOne;
    private KafkaProducer<byte[], byte[]> gathering;

    private KafkaSending(Args args) {
        super(args.number("queues", 64));
        address = args.position(0, "ADDRESS");
    }

    public static void main(String[] words) {
        main(() -> new KafkaSending(new Args(words)));
    }

    @Override
    void openStore() throws Exception {
        admin = Admin.create(Map.of("bootstrap.servers", address));
        List<NewTopic> wanted = new ArrayList<>();
        for (String topic : topics) {
            wanted.add(new NewTopic(topic, QUEUES_PER_TOPIC, (short) 1));
        }
        admin.createTopics(wanted).all().get();
        oneByOne = producer(Map.of("batch.size", 0, "linger.ms", 0));
        gathering = producer(Map.of());
    }

    private KafkaProducer<byte[], byte[]> producer(Map<String, Object> further) {
        Map<String, Object> settings = new HashMap<>(further);
        settings.put("bootstrap.servers", address);
        return new KafkaProducer<>(settings, new ByteArraySerializer(), new ByteArraySerializer());
    }

    @Override
    void put(int queue, Given given) throws Exception {
        send(oneByOne, single, queue, given);
    }

    @Override
    void put(int queue, Given[] given) throws Exception {
        for (Given one : given) {
            send(gathering, gathered, queue, one);
        }
    }

    private void send(KafkaProducer<byte[], byte[]> producer, UnderWay underWay, int queue, Given given) throws Exception {
        ProducerRecord<byte[], byte[]> record = new ProducerRecord<>(topics[queue / QUEUES_PER_TOPIC], queue % QUEUES_PER_TOPIC,
            given.keys().getBytes(StandardCharsets.UTF_8), given.body());
        record.headers().add("TAGS", given.tags().getBytes(StandardCharsets.UTF_8));
        record.headers().add("UNIQ_KEY", given.uniqueKey().getBytes(StandardCharsets.UTF_8));
        underWay.begin(1);
        producer.send(record, (stored, failed) -> underWay.end(1, failed));
    }

    @Override
    void settle() throws Exception {
        gathering.flush();
        single.await();
        gathered.await();
    }

    @Override
    long stored() throws Exception {
        Map<TopicPartition, OffsetSpec> asked = new HashMap<>();
        for (int queue = 0; queue < queues; queue++) {
            asked.put(new TopicPartition(topics[queue / QUEUES_PER_TOPIC], queue % QUEUES_PER_TOPIC), OffsetSpec.latest());
        }
        long stored = 0;
        for (ListOffsetsResultInfo found : admin.listOffsets(asked).all().get().values()) {
            stored += found.offset();
        }
        return stored;
    }
}
