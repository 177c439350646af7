package bsjoin.jvm;

import java.io.Serializable;
import java.util.Collections;
import java.util.LinkedHashMap;
import java.util.Map;
import org.apache.spark.SparkContext;
import org.apache.spark.TaskContext;
import org.apache.spark.sql.execution.SQLExecution;
import org.apache.spark.sql.execution.metric.SQLMetric;
import org.apache.spark.sql.execution.metric.SQLMetrics;
import org.apache.spark.util.CollectionAccumulator;
import org.apache.spark.util.TaskCompletionListener;
import scala.Option;

/**
 * What a {@link LookupExec} counts: metrics of Spark's UI. Each iterator counts in fields of its own,
 * and reports them when its task ends.
 */
public final class Counts implements Serializable {
  /** What makes metrics that can tell what was counted last, since Spark 4.2; null before. */
  private static final Object LAST_ATTEMPTS = lastAttempts();

  private final SQLMetric in;
  private final SQLMetric matched;
  private final SQLMetric out;
  private final SQLMetric opening;
  private final transient SQLMetric version;
  private final CollectionAccumulator<Integer> followed; // the last version of each task; or null
  private transient Finder finder;
  private transient long rows;
  private transient long matches;
  private transient long results;
  private transient long openingNs;

  /** The metrics of one operator, which may follow the versions of its table. */
  Counts(SparkContext context, boolean follows) {
    in = metric(context, "rows in");
    matched = metric(context, "rows with a match");
    out = metric(context, "rows out");
    opening = SQLMetrics.createNanoTimingMetric(context, "time to open the table", -1);
    version = SQLMetrics.createMetric(context, "version of the table");
    followed = follows ? context.collectionAccumulator() : null;
  }

  private static Object lastAttempts() {
    try {
      return Class.forName("org.apache.spark.sql.execution.metric.SQLLastAttemptMetrics$")
          .getField("MODULE$").get(null);
    } catch (ReflectiveOperationException | LinkageError e) {
      return null;
    }
  }

  private static SQLMetric metric(SparkContext context, String name) {
    try {
      if (LAST_ATTEMPTS != null) {
        return (SQLMetric)
            LAST_ATTEMPTS.getClass()
                .getMethod("createMetric", SparkContext.class, String.class)
                .invoke(LAST_ATTEMPTS, context, name);
      }
    } catch (ReflectiveOperationException | LinkageError | ClassCastException e) {
      // It is another Spark's.
    }
    return SQLMetrics.createMetric(context, name);
  }

  /**
   * What was counted, by the names of the metrics; without the version.
   *
   * <p>Of rows that are computed again, for another action or after a failure, the last time counts,
   * as for Spark's {@code observe}: all counts are of one RDD. Before Spark 4.2 each time counts.
   */
  Map<String, Long> values() {
    Object rdd = LAST_ATTEMPTS == null ? null : called(in, "getHighestRDDId");
    Map<String, Long> all = new LinkedHashMap<>();
    metrics().forEach(
        (name, metric) -> {
          if (metric != version) {
            all.put(name, value(metric, metric == opening ? null : rdd));
          }
        });
    return all;
  }

  /** What a metric has counted of an RDD; null for all. */
  private static long value(SQLMetric metric, Object rdd) {
    if (rdd == null) {
      return metric.value();
    }
    Object last = called(metric, "lastAttemptValueForRDDId", rdd);
    return last == null ? 0 : (Long) last;
  }

  /** What a method of a metric gives, an option; null for none. */
  private static Object called(SQLMetric metric, String name, Object... arguments) {
    try {
      Class<?>[] types = arguments.length == 0 ? new Class<?>[0] : new Class<?>[] {int.class};
      Option<?> found = (Option<?>) metric.getClass().getMethod(name, types).invoke(metric, arguments);
      return found.isDefined() ? found.get() : null;
    } catch (ReflectiveOperationException | LinkageError | ClassCastException e) {
      return null;
    }
  }

  private Counts(Counts of) {
    in = of.in;
    matched = of.matched;
    out = of.out;
    opening = of.opening;
    version = null;
    followed = of.followed;
  }

  Map<String, SQLMetric> metrics() {
    Map<String, SQLMetric> all = new LinkedHashMap<>();
    all.put("rowsIn", in);
    all.put("matchedRows", matched);
    all.put("rowsOut", out);
    all.put("openTime", opening);
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

  /** One for an iterator. */
  public Counts open() {
    Counts opened = new Counts(this);
    TaskContext task = TaskContext.get();
    if (task != null) {
      task.addTaskCompletionListener((TaskCompletionListener) ended -> opened.report());
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

  /** Rows that the join makes. */
  public void result() {
    results++;
  }

  private void report() {
    in.add(rows);
    matched.add(matches);
    out.add(results);
    opening.add(openingNs);
    if (followed != null && finder != null) {
      followed.add(finder.version().manifest.version);
    }
  }
}
