package bsjoin.jvm.spark;

import java.io.Serializable;
import java.util.Arrays;
import java.util.function.UnaryOperator;
import org.apache.spark.sql.catalyst.expressions.Alias;
import org.apache.spark.sql.catalyst.expressions.ExprId;
import org.apache.spark.sql.catalyst.expressions.Expression;
import org.apache.spark.sql.catalyst.trees.TreeNode;
import scala.Option;
import scala.Product;
import scala.collection.immutable.Seq;

/** An expression with what Scala adds to a class of expressions: equal parts make equal ones. */
public abstract class OwnExpression extends Expression implements Serializable {
  private final Object[] parts; // the arguments of the constructor
  private final Seq<Expression> children;

  public OwnExpression(Object... parts) {
    this.parts = parts;
    children =
        Scala.seq(
            Arrays.stream(parts).filter(Expression.class::isInstance).toArray(Expression[]::new));
  }

  /** An expression as a column. */
  public static Alias alias(Expression value, String name, ExprId id) {
    return new Alias(value, name, id, Scala.seq(), Option.empty(), Scala.seq());
  }

  /** An expression with others in the place of some: the rule is null for those that stay. */
  public static Expression replaced(Expression one, UnaryOperator<Expression> rule) {
    Expression other = rule.apply(one);
    return other != null
        ? other
        : (Expression) one.mapChildren(Scala.function(child -> replaced(child, rule)));
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

  /**
   * Whether two nodes of plans are of one class, and have equal parts.
   *
   * <p>Each rule of Spark asks it of what it was given and has made, which share most of their parts:
   * hashes, which new nodes do not have yet, would be made of all that is below.
   */
  public static boolean areEqual(TreeNode<?> one, Object other) {
    boolean same = one == other;
    if (!same && other != null && other.getClass() == one.getClass()) {
      same = true;
      for (int i = 0; same && i < one.productArity(); i++) {
        Object part = one.productElement(i);
        Object theirs = ((Product) other).productElement(i);
        same = part == theirs || part.equals(theirs);
      }
    }
    return same;
  }
}
