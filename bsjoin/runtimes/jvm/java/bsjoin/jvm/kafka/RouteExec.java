package bsjoin.jvm.kafka;

import bsjoin.jvm.spark.OwnExpression;
import bsjoin.jvm.spark.Scala;
import org.apache.spark.rdd.RDD;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.catalyst.expressions.Attribute;
import org.apache.spark.sql.catalyst.expressions.SortOrder;
import org.apache.spark.sql.catalyst.plans.physical.Partitioning;
import org.apache.spark.sql.execution.CollectMetricsExec;
import org.apache.spark.sql.execution.SparkPlan;
import org.apache.spark.sql.execution.metric.SQLMetric;
import scala.collection.immutable.IndexedSeq;
import scala.collection.immutable.Seq;
import scala.reflect.ClassTag$;

/** Counts what became of the rows of {@code bsjoin.kafka.route}: see {@link RouteStrategy}. */
public final class RouteExec extends SparkPlan {
  private final RoutedRows rows;
  private final SparkPlan child; // reports the counts

  public RouteExec(RoutedRows rows, SparkPlan child) {
    this.rows = rows;
    this.child = child;
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
  public Seq<Attribute> output() {
    return child.output();
  }

  @Override
  public Partitioning outputPartitioning() {
    return child.outputPartitioning();
  }

  @Override
  public Seq<SortOrder> outputOrdering() {
    return child.outputOrdering();
  }

  @Override
  public String nodeName() {
    return "BsjoinRoute";
  }

  @Override
  public Seq<SparkPlan> children() {
    return Scala.seq(child);
  }

  @Override
  public SparkPlan withNewChildrenInternal(IndexedSeq<SparkPlan> children) {
    return new RouteExec(rows, children.head());
  }

  @Override
  public int productArity() {
    return 2;
  }

  @Override
  public Object productElement(int number) {
    return number == 0 ? rows : child;
  }

  @Override
  public boolean canEqual(Object other) {
    return other instanceof RouteExec;
  }

  @Override
  public boolean equals(Object other) {
    return OwnExpression.areEqual(this, other);
  }
}
