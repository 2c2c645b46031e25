package reput.peer;

import java.io.IOException;
import java.lang.management.ManagementFactory;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.Map;
import org.apache.rocketmq.store.queue.ConsumeQueueInterface;

/**
 * RocketMQ rebuilds both indexes while it loads a store without them, on one thread, checking body CRCs.
 *
 * <p>What makes 5.5.1 start at the first log file (CommitLog.recoverAbnormally, ConsumeQueueStore.isMappedFileMatchedRecover):
 * {@code abort} is there and {@code checkpoint} is not. It walks back from the last log file to one whose first message is
 * older than checkpoint.logicsMsgTimestamp or, where the checkpoint has it, lies below checkpoint.logicsPhysicalOffset. With the
 * old checkpoint that is the last file, and the queues would begin in the middle; without one, no file matches and it ends up at
 * file 0. Without {@code abort} an empty {@code consumequeue/} has the same effect (dispatchFrom is -1), whatever the checkpoint.
 * Either way it goes back at most commitLogRecoverMaxNum files, 10 by default: a longer log would be indexed in part only, so that
 * limit is lifted here. checkCRCOnRecover is RocketMQ's default, true.
 */
final class Rebuilding {
    private Rebuilding() {
    }

    static Map<String, Object> rebuild(Args args) throws Exception {
        double jvmStartSeconds = (System.currentTimeMillis() - ManagementFactory.getRuntimeMXBean().getStartTime()) / 1e3;
        Path root = Path.of(args.position(1, "STORE"));
        prepare(root);
        Store store = new Store(root, args);
        store.rocketmq.getMessageStoreConfig().setCommitLogRecoverMaxNum(Integer.MAX_VALUE);
        long begin = System.nanoTime();
        if (!store.rocketmq.load()) {
            throw new IllegalStateException("RocketMQ refuses to load " + root);
        }
        double loadSeconds = (System.nanoTime() - begin) / 1e9;
        store.sync();
        double totalSeconds = (System.nanoTime() - begin) / 1e9;
        store.rocketmq.start();
        store.awaitDispatch();
        Map<String, Object> report = Json.object("messages", messages(store),
            "seconds_load", loadSeconds,
            "seconds_total_with_sync", totalSeconds,
            "crc", store.rocketmq.getMessageStoreConfig().isCheckCRCOnRecover(),
            "jvm_start_seconds", jvmStartSeconds,
            "min_physical_offset", store.rocketmq.getMinPhyOffset(),
            "max_physical_offset", store.rocketmq.getMaxPhyOffset());
        store.close();
        return report;
    }

    private static void prepare(Path root) throws IOException {
        for (String folder : new String[] {"consumequeue", "index"}) {
            if (Files.exists(root.resolve(folder))) {
                throw new IllegalStateException("remove " + folder + "/ first: " + root);
            }
        }
        Files.deleteIfExists(root.resolve("checkpoint"));
        if (!Files.exists(root.resolve("abort"))) {
            Files.createFile(root.resolve("abort"));
        }
    }

    private static long messages(Store store) {
        long messages = 0;
        for (ConsumeQueueInterface queue : store.queues()) {
            messages += queue.getMaxOffsetInQueue() - queue.getMinOffsetInQueue();
        }
        return messages;
    }
}
