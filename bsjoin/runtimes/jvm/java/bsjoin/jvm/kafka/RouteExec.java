package bsjoin.jvm.kafka;

import bsjoin.jvm.spark.OwnPlan;
import bsjoin.jvm.spark.Scala;
import org.apache.spark.rdd.RDD;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.execution.CollectMetricsExec;
import org.apache.spark.sql.execution.SparkPlan;
import org.apache.spark.sql.execution.metric.SQLMetric;
import scala.collection.immutable.IndexedSeq;
import scala.reflect.ClassTag$;

/** Counts what became of the rows of {@code bsjoin.kafka.route}: see {@link RouteStrategy}. */
public final class RouteExec extends OwnPlan {
  private final RoutedRows rows;

  /**
   * A count.
   *
   * @param child what reports it
   */
  public RouteExec(RoutedRows rows, SparkPlan child) {
    super(child, rows);
    this.rows = rows;
  }

  @Override
  public RDD<InternalRow> doExecute() {
    SparkPlan counted = child instanceof CollectMetricsExec ? child.children().head() : child;
    return counted
        .execute()
        .mapPartitionsWithIndex(
            rows.of(Scala.list(output())), true, ClassTag$.MODULE$.apply(InternalRow.class));
  }

  @Override
  public scala.collection.immutable.Map<String, SQLMetric> metrics() {
    return Scala.map(rows.metrics());
  }

  @Override
  public String nodeName() {
    return "BsjoinRoute";
  }

  @Override
  public SparkPlan withNewChildrenInternal(IndexedSeq<SparkPlan> children) {
    return new RouteExec(rows, children.head());
  }
}
