package bsjoin.jvm.kafka;

import bsjoin.jvm.spark.PartitionCounts;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.io.Serializable;
import java.util.Locale;
import org.apache.spark.SparkContext;
import org.apache.spark.TaskContext;
import org.apache.spark.util.TaskCompletionListener;

/** What became of the rows of one {@code bsjoin.kafka.route}. A task reports when it ends. */
final class RouteCounts implements Serializable {
  private final PartitionCounts reports;
  private transient long[] own; // the rows of a partition, and how many had each outcome
  private transient int partition;

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

  private static final Outcome[] OUTCOMES = Outcome.values();

  RouteCounts(SparkContext context) {
    reports = new PartitionCounts(context);
  }

  void add(int partition, Outcome outcome) {
    if (own == null || this.partition != partition) {
      this.partition = partition;
      own = opened(partition);
    }
    own[0] += outcome == Outcome.RECOVERED ? 0 : 1;
    own[1 + outcome.ordinal()]++;
  }

  private long[] opened(int partition) {
    long[] counts = new long[1 + OUTCOMES.length];
    TaskContext task = TaskContext.get();
    if (task != null) {
      TaskCompletionListener end = ended -> reports.add(partition, counts);
      task.addTaskCompletionListener(end);
    }
    return counts;
  }

  /** Tell the driver's figures by the outcomes. */
  void describe(ObjectNode figures) {
    long[] sums = reports.sums(1 + OUTCOMES.length);
    for (Outcome one : OUTCOMES) {
      figures.put(one.toString(), sums[1 + one.ordinal()]);
    }
  }
}
