package bsjoin.jvm.kafka;

import bsjoin.jvm.lookup.LastAttempts;
import bsjoin.jvm.planner.Planner;
import bsjoin.jvm.spark.PlanTime;
import bsjoin.jvm.spark.Scala;
import java.util.ArrayList;
import java.util.List;
import org.apache.spark.SparkContext;
import org.apache.spark.sql.catalyst.expressions.Alias;
import org.apache.spark.sql.catalyst.expressions.Literal;
import org.apache.spark.sql.catalyst.expressions.NamedExpression;
import org.apache.spark.sql.catalyst.plans.logical.CollectMetrics;
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;
import org.apache.spark.sql.execution.CollectMetricsExec;
import org.apache.spark.sql.execution.SparkPlan;
import org.apache.spark.sql.execution.SparkStrategy;
import org.apache.spark.sql.execution.metric.SQLMetric;
import org.apache.spark.unsafe.types.UTF8String;
import scala.Option;
import scala.collection.immutable.Seq;

/**
 * Plans what {@code bsjoin.kafka.route} observes: {@link RouteExec} counts the rows, and Spark's own
 * operator below it, which is never executed, reports the counts with the progress of the query.
 * Without the {@link Planner} Spark counts.
 *
 * <p>Executed, it would send the expressions with each task and back, and generate code for them in
 * each task: for a micro-batch more than all of its rows.
 */
public final class RouteStrategy extends SparkStrategy {
  private static final String NAME = "bsjoin.kafka.route "; // and the topic of rows that are found
  private static final List<String> COUNTS = List.of("found", "recovered", "waiting", "expired");

  @Override
  public Seq<SparkPlan> apply(LogicalPlan plan) {
    UTF8String retry =
        plan instanceof CollectMetrics one && one.name().startsWith(NAME) ? retry(one) : null;
    // Real-time mode admits Spark's own operators.
    if (retry == null || !Planner.isOn() || PlanTime.current().goesOn()) {
      return Scala.seq();
    }
    try {
      return Scala.seq(counting((CollectMetrics) plan, retry));
    } catch (LinkageError e) {
      return Scala.seq(); // of another Spark, which counts itself
    }
  }

  private SparkPlan counting(CollectMetrics observed, UTF8String retry) {
    List<NamedExpression> metrics = new ArrayList<>(Scala.list(observed.metrics()));
    SQLMetric[] counted = new SQLMetric[COUNTS.size()];
    for (int i = 0; i < counted.length; i++) {
      counted[i] = LastAttempts.metric(SparkContext.getOrCreate(), "rows " + COUNTS.get(i));
      RouteCount count = new RouteCount(counted, i);
      NamedExpression given = metrics.get(i);
      metrics.set(
          i,
          new Alias(
              count, given.name(), given.exprId(), Scala.seq(), Option.empty(), Scala.seq()));
    }
    SparkPlan reports =
        new CollectMetricsExec(
            observed.name(), Scala.seq(metrics), planLater(observed.child()));
    UTF8String topic = UTF8String.fromString(observed.name().substring(NAME.length()));
    return new RouteExec(new RoutedRows(counted, topic, retry), reports);
  }

  /** The topic of rows that wait; null if another version of bsjoin observes something else. */
  private static UTF8String retry(CollectMetrics observed) {
    List<NamedExpression> metrics = Scala.list(observed.metrics());
    List<String> names = metrics.stream().map(NamedExpression::name).toList();
    return names.size() == COUNTS.size() + 1
            && names.subList(0, COUNTS.size()).equals(COUNTS)
            && metrics.get(COUNTS.size()) instanceof Alias last
            && last.child() instanceof Literal text
            && text.value() instanceof UTF8String topic
        ? topic
        : null;
  }
}
