package reput.peer;

import java.util.concurrent.Semaphore;
import java.util.concurrent.atomic.AtomicReference;

/** Messages that a client has sent and that no broker has confirmed yet: at most so many, and none that failed. */
final class UnderWay {
    private final int most;
    private final Semaphore free;
    private final AtomicReference<Throwable> problem = new AtomicReference<>();

    UnderWay(int most) {
        this.most = most;
        free = new Semaphore(most);
    }

    void begin(int count) throws Exception {
        free.acquire(count);
        check();
    }

    void end(int count, Throwable failed) {
        if (failed != null) {
            problem.compareAndSet(null, failed);
        }
        free.release(count);
    }

    void await() throws Exception {
        free.acquire(most);
        free.release(most);
        check();
    }

    private void check() {
        if (problem.get() != null) {
            throw new IllegalStateException("a send failed", problem.get());
        }
    }
}
