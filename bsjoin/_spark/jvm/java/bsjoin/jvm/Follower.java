package bsjoin.jvm;

import java.lang.ref.WeakReference;
import java.util.concurrent.ScheduledFuture;
import java.util.concurrent.ScheduledThreadPoolExecutor;
import java.util.concurrent.ThreadFactory;
import java.util.concurrent.TimeUnit;

/**
 * Looks for new versions of a table ten times a second (of a remote one, once a second), in a thread
 * of its own, and opens them before any row needs them. It ends when no running task has it any
 * more.
 */
final class Follower {
  private static final long PERIOD_MS = 100;
  private static final long REMOTE_PERIOD_MS = 1000;
  private static final int FAILURES = 3; // in a row: one may be a folder that is being written
  // A download keeps no table in a folder of this host waiting.
  private static final ScheduledThreadPoolExecutor LOCAL = thread();
  private static final ScheduledThreadPoolExecutor REMOTE = thread();

  private final Table table;
  private volatile RuntimeException failure;
  private volatile Version current;
  private int failures;

  private Follower(Table table) {
    this.table = table;
  }

  /** Follow a table. */
  static Follower of(Table table) {
    Follower created = new Follower(table);
    created.look();
    if (created.failure != null) {
      throw created.failure;
    }
    Task task = new Task(created);
    ScheduledThreadPoolExecutor thread = table.isRemote() ? REMOTE : LOCAL;
    long period = table.isRemote() ? REMOTE_PERIOD_MS : PERIOD_MS;
    task.scheduled = thread.scheduleWithFixedDelay(task, period, period, TimeUnit.MILLISECONDS);
    return created;
  }

  /** The version that is active. */
  Version version() {
    if (failure != null && failures >= FAILURES) {
      throw failure;
    }
    return current;
  }

  /** The version that a reference belongs to. */
  Version of(long reference) {
    return table.of(reference);
  }

  private void look() {
    long now = System.currentTimeMillis() * 1000;
    try {
      Version found = table.at(now); // which fails if the table was built again
      if (current != null && found != current) {
        found.openColumnsOf(current);
      }
      current = found;
      failures = 0;
      failure = null;
    } catch (RuntimeException e) {
      failed(e);
    } catch (Error e) { // which would end the looking without a word
      failed(new IllegalStateException(e));
    }
  }

  private void failed(RuntimeException error) {
    failures++;
    failure = error;
  }

  private static ScheduledThreadPoolExecutor thread() {
    ScheduledThreadPoolExecutor executor =
        new ScheduledThreadPoolExecutor(
            1,
            new ThreadFactory() {
              @Override
              public Thread newThread(Runnable work) {
                Thread thread = new Thread(work, "bsjoin-versions");
                thread.setDaemon(true);
                return thread;
              }
            });
    executor.setRemoveOnCancelPolicy(true);
    return executor;
  }

  private static final class Task implements Runnable {
    private final WeakReference<Follower> follower;
    private volatile ScheduledFuture<?> scheduled;

    Task(Follower follower) {
      this.follower = new WeakReference<>(follower);
    }

    @Override
    public void run() {
      Follower found = follower.get();
      if (found != null) {
        found.look();
      } else if (scheduled != null) {
        scheduled.cancel(false);
      }
    }
  }
}
