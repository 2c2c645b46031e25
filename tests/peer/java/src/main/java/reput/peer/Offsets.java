package reput.peer;

import java.nio.file.Path;
import java.util.Map;
import java.util.TreeMap;
import org.apache.rocketmq.broker.offset.ConsumerOffsetManager;

/** The broker's table of consumer offsets: read from a file as a broker that starts does, and written again. */
final class Offsets {
    private Offsets() {
    }

    static Map<String, Object> offsets(Args args) {
        Manager manager = new Manager(Path.of(args.position(1, "FILE")));
        boolean loaded = manager.load();
        manager.persist();
        return Json.object("load", loaded, "counter", manager.getDataVersion().getCounter().get(),
            "timestamp", manager.getDataVersion().getTimestamp(), "offsets", new TreeMap<>(manager.getOffsetTable()));
    }

    /** A manager without a broker: it only has to know its file. */
    static final class Manager extends ConsumerOffsetManager {
        private final Path file;

        Manager(Path file) {
            this.file = file;
        }

        @Override
        public String configFilePath() {
            return file.toString();
        }
    }
}
