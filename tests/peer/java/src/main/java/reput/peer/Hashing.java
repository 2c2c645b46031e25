package reput.peer;

import java.io.BufferedReader;
import java.io.IOException;
import java.io.InputStream;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.nio.charset.StandardCharsets;
import java.util.Base64;

/** Java's String.hashCode of bytes decoded as RocketMQ decodes topics, keys and tags. */
final class Hashing {
    private Hashing() {
    }

    static void hash(InputStream in, PrintStream out) throws IOException {
        BufferedReader lines = new BufferedReader(new InputStreamReader(in, StandardCharsets.US_ASCII));
        for (String line = lines.readLine(); line != null; line = lines.readLine()) {
            byte[] bytes = Base64.getDecoder().decode(line);
            out.println(new String(bytes, StandardCharsets.UTF_8).hashCode());
        }
    }
}
