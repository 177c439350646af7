package bsjoin.jvm.spark;

import org.apache.spark.sql.catalyst.expressions.Attribute;
import org.apache.spark.sql.catalyst.expressions.SortOrder;
import org.apache.spark.sql.catalyst.plans.physical.Partitioning;
import org.apache.spark.sql.execution.SparkPlan;
import scala.collection.immutable.Seq;

/**
 * An operator over another one, with what Scala adds to a class of plans: equal parts make equal
 * ones, and of equal plans Spark runs one. Its rows are where, and ordered as, those below are.
 */
public abstract class OwnPlan extends SparkPlan {
  protected final SparkPlan child;
  private final Object[] parts; // the arguments of the constructor

  /** An operator, whose constructor has the others as its first arguments. */
  protected OwnPlan(SparkPlan child, Object... others) {
    this.child = child;
    parts = others;
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
  public Seq<SparkPlan> children() {
    return Scala.seq(child);
  }

  @Override
  public int productArity() {
    return parts.length + 1;
  }

  @Override
  public Object productElement(int number) {
    return number < parts.length ? parts[number] : child;
  }

  @Override
  public boolean canEqual(Object other) {
    return other != null && other.getClass() == getClass();
  }

  @Override
  public boolean equals(Object other) {
    return OwnExpression.areEqual(this, other);
  }
}
