package bsjoin.jvm;

import java.io.Serializable;
import java.util.LinkedHashMap;
import java.util.Map;
import org.apache.spark.SparkContext;
import org.apache.spark.TaskContext;
import org.apache.spark.sql.execution.SQLExecution;
import org.apache.spark.sql.execution.metric.SQLMetric;
import org.apache.spark.sql.execution.metric.SQLMetrics;
import org.apache.spark.util.TaskCompletionListener;

/**
 * What a {@link LookupExec} counts: metrics of Spark's UI. Each iterator counts in fields of its own,
 * and reports them when its task ends.
 */
public final class Counts implements Serializable {
  private final SQLMetric in;
  private final SQLMetric matched;
  private final SQLMetric out;
  private final SQLMetric opening;
  private final transient SQLMetric version;
  private transient long rows;
  private transient long matches;
  private transient long results;
  private transient long openingNs;

  /** The metrics of one operator. */
  Counts(SparkContext context) {
    in = SQLMetrics.createMetric(context, "rows in");
    matched = SQLMetrics.createMetric(context, "rows with a match");
    out = SQLMetrics.createMetric(context, "rows out");
    opening = SQLMetrics.createNanoTimingMetric(context, "time to open the table", -1);
    version = SQLMetrics.createMetric(context, "version of the table");
  }

  private Counts(Counts of) {
    in = of.in;
    matched = of.matched;
    out = of.out;
    opening = of.opening;
    version = null;
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
    Finder opened = finder.open();
    openingNs += System.nanoTime() - begin;
    return opened;
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
  }
}
