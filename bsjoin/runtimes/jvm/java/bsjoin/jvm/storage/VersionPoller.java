package bsjoin.jvm.storage;

import java.lang.ref.WeakReference;
import java.util.concurrent.CancellationException;
import java.util.concurrent.Executors;
import java.util.concurrent.ScheduledExecutorService;
import java.util.concurrent.TimeUnit;

/**
 * Looks for new versions of a table ten times a second (of a remote one, once a second), in a thread
 * of its own, and opens them before any row needs them. It ends when no running task has it any
 * more.
 */
public final class VersionPoller {
  private static final int FAILURES = 3; // in a row: one may be a folder that is being written
  // A download keeps no table in a folder of this host waiting.
  private static final ScheduledExecutorService LOCAL = thread("local");
  private static final ScheduledExecutorService REMOTE = thread("remote");

  final Table table;
  private volatile RuntimeException failure;
  private volatile Table.Active current;
  private int failures;

  private VersionPoller(Table table) {
    this.table = table;
  }

  static VersionPoller of(Table table, boolean isRemote) {
    VersionPoller created = new VersionPoller(table);
    created.look();
    if (created.failure != null) {
      throw created.failure;
    }
    WeakReference<VersionPoller> follower = new WeakReference<>(created);
    Runnable look =
        () -> {
          VersionPoller found = follower.get();
          if (found == null) {
            throw new CancellationException("no task has it any more"); // no more looks
          }
          found.look();
        };
    long periodMs = isRemote ? 1000 : 100;
    (isRemote ? REMOTE : LOCAL)
        .scheduleWithFixedDelay(look, periodMs, periodMs, TimeUnit.MILLISECONDS);
    return created;
  }

  Version version() {
    RuntimeException last = failure; // a look at this moment may take it away
    if (last != null && failures >= FAILURES) {
      throw last;
    }
    Table.Active found = current;
    // A look that takes long finds out too late that there was no refresh.
    boolean isFresh = found.untilUs() == Long.MAX_VALUE || now() <= found.untilUs();
    return isFresh ? found.version() : looked();
  }

  /** What a row finds itself, and the next ones with it. */
  private synchronized Version looked() {
    if (now() > current.untilUs()) {
      take(table.at(now()));
    }
    return current.version();
  }

  private void take(Table.Active found) {
    if (current != null && found.version() != current.version()) {
      found.version().openColumnsOf(current.version());
    }
    current = found;
  }

  private void look() {
    try {
      take(table.at(now())); // which fails if the table was built again
      failures = 0;
      failure = null;
    } catch (RuntimeException | Error e) { // which would end the looks without a word
      failures++;
      failure = e instanceof RuntimeException known ? known : new IllegalStateException(e);
    }
  }

  private static long now() {
    return System.currentTimeMillis() * 1000;
  }

  /** One for all copies of this class that the sessions of Spark Connect load: it never ends. */
  private static ScheduledExecutorService thread(String name) {
    return (ScheduledExecutorService)
        System.getProperties()
            .computeIfAbsent(
                "bsjoin.versions." + name,
                place ->
                    Executors.newSingleThreadScheduledExecutor(
                        work -> {
                          Thread thread = new Thread(work, "bsjoin-versions");
                          thread.setDaemon(true);
                          return thread;
                        }));
  }
}
