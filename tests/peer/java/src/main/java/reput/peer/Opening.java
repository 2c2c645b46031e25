package reput.peer;

import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.stream.Stream;
import org.apache.rocketmq.store.queue.ConsumeQueueInterface;

/** Opens a store as it is, closes it, and tells which index files were there before and after. */
final class Opening {
    private Opening() {
    }

    static Map<String, Object> open(Args args) throws Exception {
        Path root = Path.of(args.position(1, "STORE"));
        boolean abort = Files.exists(root.resolve("abort"));
        List<String> before = indexFiles(root);
        Store store = new Store(root, args);
        if (!store.rocketmq.load()) {
            return Json.object("load", false, "abort", abort, "before", before, "after", indexFiles(root));
        }
        store.rocketmq.start();
        store.awaitDispatch();
        Map<String, Object> report = Json.object("load", true, "abort", abort,
            "min_physical_offset", store.rocketmq.getMinPhyOffset(),
            "max_physical_offset", store.rocketmq.getMaxPhyOffset(),
            "queues", queues(store),
            "before", before);
        store.close();
        report.put("after", indexFiles(root));
        return report;
    }

    private static List<Object> queues(Store store) {
        List<Object> queues = new ArrayList<>();
        for (ConsumeQueueInterface queue : store.queues()) {
            queues.add(Json.object("topic", queue.getTopic(), "queue", queue.getQueueId(),
                "min", queue.getMinOffsetInQueue(), "max", queue.getMaxOffsetInQueue()));
        }
        return queues;
    }

    /** Paths of all ConsumeQueue and IndexFile files, relative to the store, in order. */
    private static List<String> indexFiles(Path root) throws IOException {
        List<String> files = new ArrayList<>();
        for (String folder : List.of("consumequeue", "batchconsumequeue", "index")) {
            if (Files.isDirectory(root.resolve(folder))) {
                try (Stream<Path> paths = Files.walk(root.resolve(folder))) {
                    paths.filter(Files::isRegularFile).map(root::relativize).map(Path::toString).sorted().forEach(files::add);
                }
            }
        }
        return files;
    }
}
