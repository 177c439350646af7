package bsjoin.jvm.spark;

import java.util.ArrayList;
import java.util.List;
import org.apache.spark.sql.catalyst.expressions.Expression;
import org.apache.spark.sql.catalyst.expressions.Literal;
import org.apache.spark.sql.catalyst.expressions.NamedExpression;
import org.apache.spark.sql.catalyst.expressions.objects.Invoke;
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;
import org.apache.spark.sql.catalyst.plans.logical.Project;
import org.apache.spark.sql.execution.SparkPlan;
import org.apache.spark.sql.execution.SparkStrategy;
import org.apache.spark.sql.types.ObjectType;
import org.slf4j.LoggerFactory;
import scala.collection.immutable.Seq;

/**
 * Lets calls in projections count, anew in each plan: see {@link Counting}.
 *
 * <p>Spark's {@code observe} would be an operator more, with expressions that are analysed, planned
 * and sent in each micro-batch, and that each row passes.
 */
public final class CountingStrategy extends SparkStrategy {
  private static volatile boolean hasFailed;

  @Override
  public Seq<SparkPlan> apply(LogicalPlan plan) {
    try {
      return plan instanceof Project selection ? counting(selection) : Scala.seq();
    } catch (LinkageError e) {
      if (!hasFailed) {
        hasFailed = true;
        LoggerFactory.getLogger("bsjoin")
            .warn("bsjoin: rows of kafka.route and HotSpot are not counted", e);
      }
      return Scala.seq();
    }
  }

  private Seq<SparkPlan> counting(Project selection) {
    List<Expression> counting = new ArrayList<>();
    boolean isNew = false;
    for (NamedExpression one : Scala.list(selection.projectList())) {
      Expression given = (Expression) one;
      Expression own = OwnExpression.replaced(given, CountingStrategy::counting);
      counting.add(own);
      isNew |= own != given;
    }
    if (!isNew) {
      return Scala.seq();
    }
    List<NamedExpression> named = counting.stream().map(NamedExpression.class::cast).toList();
    return Scala.seq(planLater(new Project(Scala.seq(named), selection.child())));
  }

  /** A call that counts; null for another expression. */
  private static Expression counting(Expression expression) {
    if (expression instanceof Invoke call
        && call.targetObject() instanceof Literal text
        && text.value() instanceof Counting one) {
      Counting counting = one.counting();
      if (counting == one) {
        return call;
      }
      List<Expression> children = new ArrayList<>(Scala.list(call.children()));
      children.set(0, new Literal(counting, new ObjectType(one.getClass())));
      return (Expression) call.withNewChildren(Scala.seq(children));
    }
    return null;
  }
}
