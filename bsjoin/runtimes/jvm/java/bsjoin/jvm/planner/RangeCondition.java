package bsjoin.jvm.planner;

import bsjoin.jvm.lookup.Bound;
import bsjoin.jvm.lookup.RangeBound;
import bsjoin.jvm.storage.Dimension;
import bsjoin.jvm.storage.Types;
import java.math.BigDecimal;
import java.util.ArrayList;
import java.util.List;
import org.apache.spark.sql.catalyst.expressions.Cast;
import org.apache.spark.sql.catalyst.expressions.Coalesce;
import org.apache.spark.sql.catalyst.expressions.EqualTo;
import org.apache.spark.sql.catalyst.expressions.Expression;
import org.apache.spark.sql.catalyst.expressions.GreaterThan;
import org.apache.spark.sql.catalyst.expressions.GreaterThanOrEqual;
import org.apache.spark.sql.catalyst.expressions.If;
import org.apache.spark.sql.catalyst.expressions.IsNull;
import org.apache.spark.sql.catalyst.expressions.LessThan;
import org.apache.spark.sql.catalyst.expressions.LessThanOrEqual;
import org.apache.spark.sql.catalyst.expressions.Literal;
import org.apache.spark.sql.catalyst.expressions.Or;
import org.apache.spark.sql.types.DataType;

/**
 * A comparison of a range column of the table with a value of the stream's row.
 *
 * @param place among the columns of its dimension
 * @param codes the type that these are searched in
 * @param value of the stream
 * @param lower the column is above the value; else below it
 * @param orNull or the column is null
 * @param orAny or something holds of the stream's row alone, where the value is null
 * @param isApproximate the index finds more rows than match
 */
record RangeCondition(
    Expression whole,
    RangeColumn column,
    int place,
    DataType codes,
    Expression value,
    boolean lower,
    boolean strict,
    boolean orNull,
    boolean orAny,
    boolean isApproximate) {
  /** What a condition says of a dimension's column: nothing, one bound, or, of an equality, two. */
  static List<RangeCondition> of(Expression condition, IndexJoin join, Dimension dimension) {
    Expression compared = null;
    Expression isNull = null;
    Expression admits = null; // a row of the stream, whatever the column is
    for (Expression one : disjuncts(condition, new ArrayList<>())) {
      if (one != condition && join.isOfStream(one)) {
        admits = admits == null ? one : new Or(admits, one);
      } else if (one instanceof IsNull && isNull == null) {
        isNull = one;
      } else if (compared == null) {
        compared = one;
      } else {
        return List.of();
      }
    }
    boolean less = compared instanceof LessThan || compared instanceof LessThanOrEqual;
    boolean more = compared instanceof GreaterThan || compared instanceof GreaterThanOrEqual;
    boolean equal = compared instanceof EqualTo && compared == condition;
    List<RangeCondition> found = new ArrayList<>();
    for (int own = 0; own < 2 && (less || more || equal); own++) {
      for (boolean lower : new boolean[] {true, false}) {
        RangeCondition one =
            equal || lower == (more == (own == 0))
                ? of(condition, compared, own, lower, isNull, admits, join, dimension)
                : null;
        if (one != null) {
          found.add(one);
        }
      }
    }
    return found;
  }

  private static List<Expression> disjuncts(Expression condition, List<Expression> found) {
    if (condition instanceof Or either) {
      disjuncts(either.left(), found);
      disjuncts(either.right(), found);
    } else {
      found.add(condition);
    }
    return found;
  }

  private static RangeCondition of(
      Expression whole, Expression compared, int side, boolean lower, Expression isNull,
      Expression admits, IndexJoin join, Dimension dimension) {
    Expression own = compared.children().apply(side);
    Expression value = compared.children().apply(1 - side);
    boolean isValue = value.references().isEmpty() || join.isOfStream(value);
    if (!isValue || !IndexJoin.isPlain(value)) {
      return null;
    }
    // Where the column is null, another value decides: the index has such rows as those that end
    // last.
    boolean coalesced =
        own instanceof Coalesce && own.children().size() == 2
            && own.children().apply(1) instanceof Literal;
    RangeColumn column = RangeColumn.of(coalesced ? own.children().head() : own);
    String name = column == null ? null : join.column(column.column);
    int place = name == null ? -1 : dimension.names().indexOf(name);
    // Some casts and sums need a decimal's digits; times and dates have no type but their own.
    if (place < 0 || !value.dataType().equals(column.type)) {
      return null;
    }
    DataType codes = dimension.type();
    boolean orNull = isNull != null && ((IsNull) isNull).child().semanticEquals(column.column);
    if (isNull != null && !orNull
        || column.isLimited && Types.isRanked(codes)) { // limits are values, codes are ranks
      return null;
    }
    boolean strict = compared instanceof LessThan || compared instanceof GreaterThan;
    boolean byNull =
        admits instanceof IsNull missing && missing.child().semanticEquals(cast(value));
    Expression bounding =
        admits == null || byNull ? value : new If(admits, new Literal(null, column.type), value);
    return new RangeCondition(
        whole, column, place, codes, bounding, lower, strict, orNull || coalesced, admits != null,
        coalesced || bounding != value);
  }

  /** What is cast to a type that has all of its values. */
  private static Expression cast(Expression value) {
    return value instanceof Cast cast && Types.isWider(cast.dataType(), cast.child().dataType())
        ? cast(cast.child())
        : value;
  }

  /**
   * The value as a bound of the codes.
   *
   * @param offset what is added to a code
   * @param open where no code is great or small enough, the bound is the end of 64 bits
   */
  Bound bound(long offset, boolean open) {
    BigDecimal moved = column.moved.negate();
    RangeBound rule =
        RangeBound.of(lower, !strict, moved, Types.scale(value.dataType()), codes, offset);
    return new Bound(
        value, rule.open(open).orNull(orNull && !isApproximate).orAny(orAny), Bound.isSafe(value));
  }
}
