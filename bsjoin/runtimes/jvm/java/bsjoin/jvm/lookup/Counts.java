package bsjoin.jvm.lookup;

import bsjoin.jvm.spark.PartitionCounts;
import bsjoin.jvm.spark.Scala;
import java.io.Serializable;
import java.util.Collections;
import java.util.LinkedHashMap;
import java.util.Map;
import java.util.function.Consumer;
import org.apache.spark.SparkContext;
import org.apache.spark.TaskContext;
import org.apache.spark.sql.execution.SQLExecution;
import org.apache.spark.sql.execution.metric.SQLMetric;
import org.apache.spark.sql.execution.metric.SQLMetrics;
import org.apache.spark.util.CollectionAccumulator;
import org.apache.spark.util.TaskCompletionListener;
import org.slf4j.LoggerFactory;

/**
 * What a {@link LookupExec} counts: metrics of Spark's UI. Each iterator counts in fields of its own,
 * and reports them when its task ends, there and for the figures of a micro-batch.
 */
public final class Counts implements Serializable {
  private static final String[] NAMES = {"rowsIn", "matchedRows", "rowsOut", "openTime"};

  /** What has the counts of all tasks of an executor among its metrics; null where it cannot. */
  private static final Consumer<long[]> EXECUTOR = executor();

  private final SQLMetric[] counted; // by the names
  private final PartitionCounts reports; // by the names
  private final transient SQLMetric version;
  private final CollectionAccumulator<Integer> followed; // the last version of each task; or null
  private transient int partition;
  private transient Finder finder;
  private transient long rows;
  private transient long matches;
  private transient long results;
  private transient long openingNs;

  /** The metrics of one operator, which may follow the versions of its table. */
  Counts(SparkContext context, boolean follows) {
    counted =
        new SQLMetric[] {
          SQLMetrics.createMetric(context, "rows in"),
          SQLMetrics.createMetric(context, "rows with a match"),
          SQLMetrics.createMetric(context, "rows out"),
          SQLMetrics.createNanoTimingMetric(context, "time to open the table", -1)
        };
    reports = new PartitionCounts(context);
    version = SQLMetrics.createMetric(context, "version of the table");
    followed = follows ? context.collectionAccumulator() : null;
  }

  private Counts(Counts of, int partition) {
    counted = of.counted;
    reports = of.reports;
    this.partition = partition;
    version = null;
    followed = of.followed;
  }

  /** By its name: a Spark in which it cannot be made joins without it. */
  @SuppressWarnings("unchecked")
  private static Consumer<long[]> executor() {
    try {
      return (Consumer<long[]>)
          Class.forName("bsjoin.jvm.metrics.LookupSource").getConstructor().newInstance();
    } catch (ReflectiveOperationException | LinkageError e) {
      return null;
    }
  }

  /** Add to the metrics of this executor. */
  private static void addToExecutor(long... counts) {
    try {
      if (EXECUTOR != null) {
        EXECUTOR.accept(counts);
      }
    } catch (RuntimeException | LinkageError e) { // of what is not part of Spark's public API
      LoggerFactory.getLogger("bsjoin").debug("bsjoin: no metrics in this executor", e);
    }
  }

  /** What was counted, as the names of the metrics are; without the version. */
  long[] sums() {
    return reports.sums(NAMES.length);
  }

  Map<String, SQLMetric> metrics() {
    Map<String, SQLMetric> all = new LinkedHashMap<>();
    for (int i = 0; i < NAMES.length; i++) {
      all.put(NAMES[i], counted[i]);
    }
    all.put("version", version);
    return all;
  }

  /** Tell Spark's UI the version: no task counts it. */
  void postVersion(SparkContext context, int number) {
    version.set(number);
    SQLMetrics.postDriverMetricUpdates(
        context, context.getLocalProperty(SQLExecution.EXECUTION_ID_KEY()), Scala.seq(version));
  }

  /**
   * The newest version that a task has ended with.
   *
   * @param first the one that the join was planned with
   */
  int newest(int first) {
    return followed == null || followed.value().isEmpty()
        ? first
        : Collections.max(followed.value());
  }

  /** One for an iterator over a partition. */
  public Counts open(int partition) {
    Counts opened = new Counts(this, partition);
    TaskContext task = TaskContext.get();
    if (task != null) {
      TaskCompletionListener end = ended -> opened.report();
      task.addTaskCompletionListener(end);
      addToExecutor(0, 0, 0, 0); // it has them from its first task on
    }
    return opened;
  }

  /** Open a finder, which opens the table's version. */
  public Finder opened(Finder finder) {
    long begin = System.nanoTime();
    this.finder = finder.open();
    openingNs += System.nanoTime() - begin;
    return this.finder;
  }

  /** A row of the stream; {@code found} is negative if it has no match. */
  public void row(long found) {
    rows++;
    matches += (found >>> 63) ^ 1;
  }

  public void result() {
    results++;
  }

  private void report() {
    long[] own = {rows, matches, results, openingNs};
    for (int i = 0; i < own.length; i++) {
      counted[i].add(own[i]);
    }
    reports.add(partition, own);
    addToExecutor(own);
    if (followed != null && finder != null) {
      followed.add(finder.version().manifest.version);
    }
  }
}
