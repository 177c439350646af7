package bsjoin.jvm.spark;

import java.io.Serializable;
import java.util.Arrays;
import java.util.Collection;
import java.util.HashMap;
import java.util.Map;
import org.apache.spark.SparkContext;
import org.apache.spark.util.CollectionAccumulator;

/**
 * What tasks have counted of the rows of partitions.
 *
 * <p>Rows are computed again after a failure, and for another action, which may take the first rows
 * alone: of a partition that time counts which had most of them.
 */
public final class PartitionCounts implements Serializable {
  private final CollectionAccumulator<long[]> reports; // of classes that all sessions share

  public PartitionCounts(SparkContext context) {
    reports = context.collectionAccumulator();
  }

  /**
   * Add what was counted of a partition, of which a task has several where Spark has put some together:
   * the number of rows, then what else was counted of them.
   */
  public void add(int partition, long... counts) {
    long[] report = new long[1 + counts.length];
    report[0] = partition;
    System.arraycopy(counts, 0, report, 1, counts.length);
    reports.add(report);
  }

  /** The counts of each partition, behind its number, for the driver. */
  public Collection<long[]> most() {
    Map<Long, long[]> most = new HashMap<>();
    for (long[] one : reports.value()) {
      most.merge(one[0], one, (a, b) -> Arrays.compare(a, b) > 0 ? a : b);
    }
    return most.values();
  }

  /** The sums of so many counts, for the driver. */
  public long[] sums(int number) {
    long[] sums = new long[number];
    for (long[] one : most()) {
      for (int i = 0; i < number; i++) {
        sums[i] += one[1 + i];
      }
    }
    return sums;
  }
}
