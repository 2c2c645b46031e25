package reput.peer;

import java.io.IOException;
import java.io.OutputStream;
import java.io.PrintStream;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.Comparator;
import java.util.List;
import java.util.stream.Stream;

/**
 * The peer: Apache RocketMQ's own store code behind a command line. JSON on stdout, errors on stderr, exit 0 only on success.
 *
 * <pre>
 * write   STORE N [--queues Q] [--body BYTES] [--seed S]   a store of N messages, closed cleanly
 * rebuild STORE                                            both indexes from the log, timed
 * open    STORE                                            what RocketMQ makes of a store as it is
 * ask     STORE QUESTIONS.jsonl[.gz]                       the questions answered, line for line
 * dump    STORE                                            the log's line and every queue's, with all its entries
 * append  STORE N                                          N more messages, each read back
 * put     STORE                                            the messages that JSON lines on stdin describe, and where they went
 * turn    STORE                                            puts and questions on stdin, until killed; see Turn
 * bench-put STORE N [--queues Q] [--warm-up W] [--threads T] [--body BYTES]   puts into a new store, timed
 * bench-read STORE [--pull MAX ...] [--questions FILE] [--milliseconds MS]     pulls, look-ups by time and by key, timed
 * metadata STORE v1|v1-single|v2|lmq                       the offsets that a broker starts with
 * offsets FILE                                             a consumerOffset.json read and written again
 * unwrap                                                   records with batches, base64 lines on stdin, as a client takes them apart
 * waiting STORE [--timerlog-file BYTES] [--roll-window SLOTS]   work that waits, written as JSON lines on stdin say
 * hash                                                     String.hashCode of base64 lines on stdin, taken as UTF-8
 * sql                                                      SQL92 filters asked about properties, a line each on stdin
 * filters                                                  the registry of consumers' filters, a step a line on stdin
 * bloom                                                    the Bloom filter's bits for texts, a line each on stdin
 * bench-sql LOG_FILE SQL [--rounds N]                      one filter over all records of a log file, timed
 *
 * of those that take a STORE:
 *                  --commitlog-file BYTES --cq-file BYTES --index-slots N --index-items N
 *                  --batch-topic TOPIC --lite-topic TOPIC   (topics of these types)
 *                  --set NAME=VALUE                         (any of RocketMQ's store settings)
 *                  --calc-bitmaps 1                         (bits of the filters in config/consumerFilter.json)
 *                  --random-bitmaps SEED                    (random bits instead, for two of three messages)
 *                  --queue TOPIC@ID                         (a queue to know; in a RocksDB it knows none by itself)
 * </pre>
 */
public final class Peer {
    private Peer() {
    }

    public static void main(String[] words) throws IOException {
        PrintStream out = new PrintStream(System.out, false, StandardCharsets.UTF_8);
        System.setOut(new PrintStream(OutputStream.nullOutputStream()));
        Path home = Files.createTempDirectory("reput-peer-home");
        // RocketMQ and its RocksDB write logs and debug files under the user's home.
        System.setProperty("user.home", home.toString());
        int status = 0;
        try {
            Args args = new Args(words);
            run(args.position(0, "command"), args, out);
        } catch (Throwable problem) {
            problem.printStackTrace();
            status = 1;
        }
        out.flush();
        delete(home);
        System.exit(status); // RocketMQ leaves threads behind that would keep the process alive
    }

    private static void run(String command, Args args, PrintStream out) throws Exception {
        switch (command) {
            case "write" -> out.println(Json.text(Writing.write(args)));
            case "rebuild" -> out.println(Json.text(Rebuilding.rebuild(args)));
            case "open" -> out.println(Json.text(Opening.open(args)));
            case "append" -> out.println(Json.text(Writing.append(args)));
            case "bench-put" -> out.println(Json.text(BenchPutting.put(args)));
            case "bench-read" -> out.println(Json.text(BenchReading.read(args)));
            case "ask" -> Asking.ask(args, out);
            case "dump" -> Asking.dump(args, out);
            case "metadata" -> out.println(Json.text(Metadata.metadata(args)));
            case "offsets" -> out.println(Json.text(Offsets.offsets(args)));
            case "sql" -> Filtering.sql(System.in, out);
            case "filters" -> Filters.filters(System.in, out);
            case "bloom" -> Filtering.bloom(System.in, out);
            case "bench-sql" -> out.println(Json.text(Filtering.bench(args)));
            case "turn" -> new StoreTurn(args).run(System.in, out);
            case "put" -> Putting.put(args, System.in, out);
            case "unwrap" -> Unwrapping.unwrap(System.in, out);
            case "waiting" -> Waiting.write(args, System.in, out);
            case "hash" -> Hashing.hash(System.in, out);
            default -> throw new IllegalArgumentException("unknown command: " + command);
        }
    }

    private static void delete(Path folder) throws IOException {
        try (Stream<Path> paths = Files.walk(folder)) {
            List<Path> deepestFirst = paths.sorted(Comparator.reverseOrder()).toList();
            for (Path path : deepestFirst) {
                Files.delete(path);
            }
        }
    }
}
