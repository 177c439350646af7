package bsjoin.jvm.kafka;

import bsjoin.jvm.lookup.LastAttempts;
import java.io.Serializable;
import org.apache.spark.SparkContext;
import org.apache.spark.TaskContext;
import org.apache.spark.sql.execution.metric.SQLMetric;
import org.apache.spark.util.TaskCompletionListener;

/** What became of the rows of one {@code bsjoin.kafka.route}: each task reports when it ends. */
final class RouteCounts implements Serializable {
  private final SQLMetric[] counted; // by the outcomes
  private transient long[] rows;

  /** What can become of a row. One that is found after it waited is among those found, too. */
  enum Outcome {
    FOUND,
    RECOVERED,
    WAITING,
    EXPIRED;

    @Override
    public String toString() {
      return name().toLowerCase(java.util.Locale.ROOT);
    }
  }

  RouteCounts(SparkContext context) {
    counted = new SQLMetric[Outcome.values().length];
    for (Outcome one : Outcome.values()) {
      counted[one.ordinal()] = LastAttempts.metric(context, "rows " + one);
    }
  }

  void add(Outcome outcome) {
    if (rows == null) {
      long[] own = new long[counted.length];
      rows = own;
      TaskContext task = TaskContext.get();
      if (task != null) {
        TaskCompletionListener end = ended -> report(own);
        task.addTaskCompletionListener(end);
      }
    }
    rows[outcome.ordinal()]++;
  }

  private void report(long[] own) {
    for (int i = 0; i < own.length; i++) {
      counted[i].add(own[i]);
    }
  }

  /** What all tasks have counted, by the outcomes: for the driver. */
  long[] values() {
    return LastAttempts.values(counted);
  }
}
