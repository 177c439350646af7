package bsjoin.jvm.kafka;

import java.io.Serializable;
import java.util.HashMap;
import java.util.Locale;
import java.util.Map;
import org.apache.spark.SparkContext;
import org.apache.spark.TaskContext;
import org.apache.spark.util.CollectionAccumulator;
import org.apache.spark.util.TaskCompletionListener;

/**
 * What became of the rows of one {@code bsjoin.kafka.route}. Each task reports when it ends: its
 * stage, its partition, and how many rows had each outcome.
 */
final class RouteCounts implements Serializable {
  private static final int OUTCOMES = Outcome.values().length;
  private static final int OTHERS = 2; // before the outcomes

  private final CollectionAccumulator<long[]> reports;
  private transient long[] own;

  /** What can become of a row. One that is found after it waited is among those found, too. */
  enum Outcome {
    FOUND,
    RECOVERED,
    WAITING,
    EXPIRED;

    @Override
    public String toString() {
      return name().toLowerCase(Locale.ROOT);
    }
  }

  RouteCounts(SparkContext context) {
    reports = context.collectionAccumulator();
  }

  void add(Outcome outcome) {
    if (own == null) {
      own = opened();
    }
    own[OTHERS + outcome.ordinal()]++;
  }

  private long[] opened() {
    long[] report = new long[OTHERS + OUTCOMES];
    TaskContext task = TaskContext.get();
    if (task != null) {
      report[0] = task.stageId();
      report[1] = task.partitionId();
      TaskCompletionListener end = ended -> reports.add(report);
      task.addTaskCompletionListener(end);
    }
    return report;
  }

  /** By the outcomes, for the driver: of rows that are computed again the last time counts. */
  long[] values() {
    Map<Long, long[]> last = new HashMap<>();
    for (long[] one : reports.value()) {
      last.merge(one[1], one, (before, after) -> after[0] >= before[0] ? after : before);
    }
    long[] sums = new long[OUTCOMES];
    for (long[] one : last.values()) {
      for (int i = 0; i < OUTCOMES; i++) {
        sums[i] += one[OTHERS + i];
      }
    }
    return sums;
  }
}
