package bsjoin.jvm.planner;

import bsjoin.jvm.spark.BatchTime;
import bsjoin.jvm.storage.TableError;
import bsjoin.jvm.storage.Types;
import org.apache.spark.sql.catalyst.expressions.And;
import org.apache.spark.sql.catalyst.expressions.Expression;
import org.apache.spark.sql.catalyst.expressions.GreaterThan;
import org.apache.spark.sql.catalyst.expressions.GreaterThanOrEqual;
import org.apache.spark.sql.catalyst.expressions.LessThan;
import org.apache.spark.sql.catalyst.expressions.LessThanOrEqual;
import org.apache.spark.sql.catalyst.plans.JoinType;
import org.apache.spark.sql.catalyst.plans.logical.Join;
import org.apache.spark.sql.catalyst.plans.logical.JoinHint;
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;
import scala.Option;

/**
 * {@code ASOF JOIN ... MATCH_CONDITION} of Spark's SQL, from version 4.3 on, as a join with the
 * condition {@link AsOf}.
 *
 * <p>Spark chooses among the rows that meet all other conditions, the index among all rows of a key:
 * a join with other conditions, and filters on the table, are left to Spark. Of rows with the same
 * key and value Spark takes any one, the index the table's first one.
 */
public final class AsOfOfSpark {
  private AsOfOfSpark() {}

  static boolean is(LogicalPlan plan) {
    return plan.getClass().getSimpleName().equals("AsOfJoin");
  }

  /** Such a join as one that the index answers; null if it does not. */
  static IndexJoin of(LogicalPlan plan) {
    try {
      return joined(plan);
    } catch (ReflectiveOperationException e) {
      return null; // before Spark 4.3 there is no match condition
    } catch (IllegalArgumentException e) {
      if (TableError.is(e)) {
        return null; // the table was not built for it
      }
      throw e;
    }
  }

  private static IndexJoin joined(LogicalPlan plan) throws ReflectiveOperationException {
    Expression compared = (Expression) BatchTime.get(plan, "asOfCondition");
    Option<?> tolerance = (Option<?>) BatchTime.get(plan, "toleranceAssertion");
    boolean isMore = compared instanceof GreaterThan || compared instanceof GreaterThanOrEqual;
    boolean isLess = compared instanceof LessThan || compared instanceof LessThanOrEqual;
    boolean isSorted = (Boolean) BatchTime.get(plan, "requiresSortMergeAsOfJoin");
    if (!isMore && !isLess || !isSorted || tolerance.isDefined()) {
      return null;
    }
    LogicalPlan left = plan.children().head();
    LogicalPlan right = plan.children().apply(1);
    Expression first = compared.children().head();
    Expression second = compared.children().apply(1);
    boolean isAsWritten = first.references().subsetOf(left.outputSet());
    Expression stream = isAsWritten ? first : second;
    Expression table = isAsWritten ? second : first;
    if (Types.isFloating(table.dataType())) {
      return null; // whose NaN has no distance
    }
    boolean exact =
        compared instanceof GreaterThanOrEqual || compared instanceof LessThanOrEqual;
    Expression condition = AsOf.call(stream, table, isMore == isAsWritten, exact);
    Option<?> more = (Option<?>) BatchTime.get(plan, "condition");
    if (more.isDefined()) {
      condition = new And((Expression) more.get(), condition);
    }
    JoinType kind = (JoinType) BatchTime.get(plan, "joinType");
    Join join = new Join(left, right, kind, Option.apply(condition), JoinHint.NONE());
    IndexJoin found = IndexJoin.of(join);
    return found != null && found.tableIsRight && found.search.residual().isEmpty() ? found : null;
  }
}
