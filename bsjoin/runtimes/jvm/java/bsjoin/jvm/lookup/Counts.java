package bsjoin.jvm.lookup;

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
import scala.Option;

/**
 * What a {@link LookupExec} counts: metrics of Spark's UI. Each iterator counts in fields of its own,
 * and reports them when its task ends.
 */
public final class Counts implements Serializable {
  private static final String[] NAMES = {"rowsIn", "matchedRows", "rowsOut", "openTime"};

  /** What makes metrics that can tell what was counted last, since Spark 4.2; null before. */
  private static final Object LAST_ATTEMPTS = lastAttempts();

  /** What has the counts of all tasks of an executor among its metrics; null where it cannot. */
  private static final Consumer<long[]> EXECUTOR = executor();

  private final SQLMetric[] counted; // by the names
  private final transient SQLMetric version;
  private final CollectionAccumulator<Integer> followed; // the last version of each task; or null
  private transient Finder finder;
  private transient long rows;
  private transient long matches;
  private transient long results;
  private transient long openingNs;

  /** The metrics of one operator, which may follow the versions of its table. */
  Counts(SparkContext context, boolean follows) {
    counted =
        new SQLMetric[] {
          metric(context, "rows in"),
          metric(context, "rows with a match"),
          metric(context, "rows out"),
          SQLMetrics.createNanoTimingMetric(context, "time to open the table", -1)
        };
    version = SQLMetrics.createMetric(context, "version of the table");
    followed = follows ? context.collectionAccumulator() : null;
  }

  private Counts(Counts of) {
    counted = of.counted;
    version = null;
    followed = of.followed;
  }

  private static Object lastAttempts() {
    try {
      return Class.forName("org.apache.spark.sql.execution.metric.SQLLastAttemptMetrics$")
          .getField("MODULE$").get(null);
    } catch (ReflectiveOperationException | LinkageError e) {
      return null;
    }
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

  private static SQLMetric metric(SparkContext context, String name) {
    Class<?>[] types = {SparkContext.class, String.class};
    return called(LAST_ATTEMPTS, "createMetric", types, context, name) instanceof SQLMetric found
        ? found
        : SQLMetrics.createMetric(context, name);
  }

  /** What a method gives that this Spark may not have, or what its option has; null for none. */
  private static Object called(
      Object object, String name, Class<?>[] types, Object... arguments) {
    if (LAST_ATTEMPTS == null) {
      return null;
    }
    try {
      Object found = object.getClass().getMethod(name, types).invoke(object, arguments);
      return found instanceof Option<?> option ? option.getOrElse(() -> null) : found;
    } catch (ReflectiveOperationException | LinkageError e) {
      return null;
    }
  }

  /**
   * What was counted, by the names of the metrics; without the version.
   *
   * <p>Of rows that are computed again, for another action or after a failure, the last time counts,
   * as for Spark's {@code observe}: all counts are of one RDD. Before Spark 4.2 each time counts.
   */
  Map<String, Long> values() {
    Object rdd = called(counted[0], "getHighestRDDId", new Class<?>[0]);
    Map<String, Long> all = new LinkedHashMap<>();
    for (int i = 0; i < NAMES.length; i++) {
      Object value = counted[i].value();
      if (rdd != null && !NAMES[i].equals("openTime")) {
        value = called(counted[i], "lastAttemptValueForRDDId", new Class<?>[] {int.class}, rdd);
      }
      all.put(NAMES[i], value == null ? 0 : (Long) value);
    }
    return all;
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

  /** One for an iterator. */
  public Counts open() {
    Counts opened = new Counts(this);
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
    addToExecutor(own);
    if (followed != null && finder != null) {
      followed.add(finder.version().manifest.version);
    }
  }
}
