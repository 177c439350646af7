package bsjoin.jvm.kafka;

import bsjoin.jvm.spark.BatchFigures;
import bsjoin.jvm.spark.Scala;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.util.ArrayList;
import java.util.List;
import org.apache.spark.SparkContext;
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
 * Lets the call that chooses a record's topic count, anew in each plan; {@code kafka.progress} reads
 * it.
 *
 * <p>Spark's {@code observe} would be an operator more, with expressions that are analysed, planned
 * and sent in each micro-batch: more than all of its rows.
 */
public final class RouteStrategy extends SparkStrategy {
  private static volatile boolean hasFailed;

  @Override
  public Seq<SparkPlan> apply(LogicalPlan plan) {
    try {
      return plan instanceof Project selection ? counting(selection) : Scala.seq();
    } catch (LinkageError e) {
      if (!hasFailed) {
        hasFailed = true;
        LoggerFactory.getLogger("bsjoin").warn("bsjoin: rows of kafka.route are not counted", e);
      }
      return Scala.seq();
    }
  }

  private Seq<SparkPlan> counting(Project selection) {
    List<Expression> counting = new ArrayList<>();
    boolean isNew = false;
    for (NamedExpression one : Scala.list(selection.projectList())) {
      Expression given = (Expression) one;
      counting.add(counting(given));
      isNew |= counting.get(counting.size() - 1) != given;
    }
    if (!isNew) {
      return Scala.seq();
    }
    List<NamedExpression> named = counting.stream().map(NamedExpression.class::cast).toList();
    return Scala.seq(planLater(new Project(Scala.seq(named), selection.child())));
  }

  /** An expression whose calls count. */
  private static Expression counting(Expression expression) {
    if (expression instanceof Invoke call
        && call.targetObject() instanceof Literal text
        && text.value() instanceof Routed.Topic topic) {
      if (topic.isCounting()) {
        return call;
      }
      List<Expression> children = new ArrayList<>(Scala.list(call.children()));
      children.set(0, new Literal(counting(topic), new ObjectType(Routed.Topic.class)));
      return (Expression) call.withNewChildren(Scala.seq(children));
    }
    return (Expression) expression.mapChildren(Scala.function(RouteStrategy::counting));
  }

  private static Routed.Topic counting(Routed.Topic topic) {
    SparkContext context = SparkContext.getOrCreate();
    RouteCounts counts = new RouteCounts(context);
    BatchFigures.Batch batch = BatchFigures.current(context);
    if (batch != null) {
      ObjectNode described = batch.described();
      topic.describe(described);
      BatchFigures.add("routes", batch, described, () -> counts.describe(described));
    }
    return topic.counting(counts);
  }
}
