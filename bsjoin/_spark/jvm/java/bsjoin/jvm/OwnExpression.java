package bsjoin.jvm;

import java.io.Serializable;
import java.util.Arrays;
import org.apache.spark.sql.catalyst.expressions.Expression;
import org.apache.spark.sql.catalyst.trees.TreeNode;
import scala.Product;
import scala.collection.immutable.Seq;

/** An expression with what Scala adds to a class of expressions: equal parts make equal ones. */
abstract class OwnExpression extends Expression implements Serializable {
  private final Object[] parts; // the arguments of the constructor
  private final Seq<Expression> children;

  OwnExpression(Object... parts) {
    this.parts = parts;
    children =
        Scala.seq(
            Arrays.stream(parts).filter(Expression.class::isInstance).toArray(Expression[]::new));
  }

  @Override
  public Seq<Expression> children() {
    return children;
  }

  @Override
  public int productArity() {
    return parts.length;
  }

  @Override
  public Object productElement(int number) {
    return parts[number];
  }

  @Override
  public boolean canEqual(Object other) {
    return other != null && other.getClass() == getClass();
  }

  @Override
  public boolean equals(Object other) {
    return areEqual(this, other);
  }

  /** Whether two nodes of plans are of one class, and have equal parts. */
  static boolean areEqual(TreeNode<?> one, Object other) {
    boolean same = one == other;
    if (!same && other != null && other.getClass() == one.getClass()) {
      same = one.hashCode() == other.hashCode();
      for (int i = 0; same && i < one.productArity(); i++) {
        same = one.productElement(i).equals(((Product) other).productElement(i));
      }
    }
    return same;
  }
}
