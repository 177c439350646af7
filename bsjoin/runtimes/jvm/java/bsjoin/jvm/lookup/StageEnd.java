package bsjoin.jvm.lookup;

import bsjoin.jvm.spark.OwnExpression;
import bsjoin.jvm.spark.Scala;
import org.apache.spark.rdd.RDD;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.catalyst.expressions.Attribute;
import org.apache.spark.sql.catalyst.expressions.SortOrder;
import org.apache.spark.sql.catalyst.plans.physical.Partitioning;
import org.apache.spark.sql.execution.SparkPlan;
import scala.collection.immutable.IndexedSeq;
import scala.collection.immutable.Seq;

/**
 * Ends a stage of generated code, and passes its rows on: what is above takes one at a time, and may
 * make any number of rows of it.
 */
public final class StageEnd extends SparkPlan {
  private final SparkPlan child;

  public StageEnd(SparkPlan child) {
    this.child = child;
  }

  @Override
  public RDD<InternalRow> doExecute() {
    return child.execute();
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
    return "BsjoinStageEnd";
  }

  @Override
  public Seq<SparkPlan> children() {
    return Scala.seq(child);
  }

  @Override
  public SparkPlan withNewChildrenInternal(IndexedSeq<SparkPlan> children) {
    return new StageEnd(children.head());
  }

  @Override
  public int productArity() {
    return 1;
  }

  @Override
  public Object productElement(int number) {
    return child;
  }

  @Override
  public boolean canEqual(Object other) {
    return other instanceof StageEnd;
  }

  @Override
  public boolean equals(Object other) {
    return OwnExpression.areEqual(this, other);
  }
}
