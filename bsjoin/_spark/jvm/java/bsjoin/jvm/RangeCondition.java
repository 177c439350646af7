package bsjoin.jvm;

import java.math.BigDecimal;
import java.util.ArrayList;
import java.util.Collections;
import java.util.List;
import org.apache.spark.sql.catalyst.expressions.Coalesce;
import org.apache.spark.sql.catalyst.expressions.EqualTo;
import org.apache.spark.sql.catalyst.expressions.Expression;
import org.apache.spark.sql.catalyst.expressions.GreaterThan;
import org.apache.spark.sql.catalyst.expressions.GreaterThanOrEqual;
import org.apache.spark.sql.catalyst.expressions.IsNull;
import org.apache.spark.sql.catalyst.expressions.LessThan;
import org.apache.spark.sql.catalyst.expressions.LessThanOrEqual;
import org.apache.spark.sql.catalyst.expressions.Literal;
import org.apache.spark.sql.catalyst.expressions.Or;
import org.apache.spark.sql.catalyst.expressions.SubqueryExpression;
import org.apache.spark.sql.types.DataType;
import org.apache.spark.sql.types.DoubleType;
import org.apache.spark.sql.types.FloatType;

/** A comparison of a range column of the table with a value of the stream's row. */
final class RangeCondition {
  final Expression whole;
  final MovedColumn column;
  final int place; // among the table's range columns
  final Expression value; // of the stream
  final boolean lower; // the column is above the value; else below it
  final boolean strict;
  final boolean orNull; // or the column is null
  final boolean isApproximate; // the index finds more rows than match

  private RangeCondition(
      Expression whole, MovedColumn column, int place, Expression value, boolean lower,
      boolean strict, boolean orNull, boolean isApproximate) {
    this.whole = whole;
    this.column = column;
    this.place = place;
    this.value = value;
    this.lower = lower;
    this.strict = strict;
    this.orNull = orNull;
    this.isApproximate = isApproximate;
  }

  /** What a condition says of a range column: nothing, one bound, or, of an equality, two. */
  static List<RangeCondition> of(Expression condition, IndexJoin join) {
    Expression compared = condition;
    Expression isNull = null;
    if (condition instanceof Or) {
      Expression left = ((Or) condition).left();
      Expression right = ((Or) condition).right();
      isNull = left instanceof IsNull ? left : right;
      compared = left instanceof IsNull ? right : left;
      if (!(isNull instanceof IsNull)) {
        return Collections.emptyList();
      }
    }
    boolean less = compared instanceof LessThan || compared instanceof LessThanOrEqual;
    boolean more = compared instanceof GreaterThan || compared instanceof GreaterThanOrEqual;
    boolean equal = compared instanceof EqualTo && isNull == null;
    if (!less && !more && !equal) {
      return Collections.emptyList();
    }
    boolean strict = compared instanceof LessThan || compared instanceof GreaterThan;
    Expression left = compared.children().head();
    Expression right = compared.children().apply(1);
    List<RangeCondition> found = new ArrayList<>();
    for (boolean isLeft : new boolean[] {true, false}) {
      Expression own = isLeft ? left : right;
      Expression value = isLeft ? right : left;
      for (boolean lower : new boolean[] {true, false}) {
        boolean wanted = equal || lower == (more == isLeft);
        RangeCondition one = wanted ? of(condition, own, value, lower, strict, isNull, join) : null;
        if (one != null) {
          found.add(one);
        }
      }
    }
    return found;
  }

  private static RangeCondition of(
      Expression whole, Expression own, Expression value, boolean lower, boolean strict,
      Expression isNull, IndexJoin join) {
    boolean isValue = value.references().isEmpty() || join.isOfStream(value);
    if (!isValue || !value.deterministic() || SubqueryExpression.hasSubquery(value)) {
      return null;
    }
    // Where the column is null, another value decides: the index has such rows as those that end
    // last.
    boolean coalesced =
        own instanceof Coalesce && own.children().size() == 2
            && own.children().apply(1) instanceof Literal;
    MovedColumn column = MovedColumn.of(coalesced ? own.children().head() : own);
    String name = column == null ? null : join.column(column.column);
    int place = name == null ? -1 : join.manifest.rangeNames.indexOf(name);
    if (place < 0 || !isExact(column, value.dataType(), join.manifest.rangeTypes.get(place))) {
      return null;
    }
    boolean orNull = isNull != null && ((IsNull) isNull).child().semanticEquals(column.column);
    if (isNull != null && !orNull) {
      return null;
    }
    return new RangeCondition(
        whole, column, place, value, lower, strict, orNull || coalesced, coalesced);
  }

  /** Whether a comparison is one of the column's codes. */
  private static boolean isExact(MovedColumn column, DataType value, DataType codes) {
    boolean floating = codes instanceof DoubleType;
    if (floating != (value instanceof DoubleType || value instanceof FloatType)) {
      return false;
    }
    // Some casts and sums need a decimal's digits; times and dates have no type but their own.
    return value.equals(column.type) && (floating ? column.moved.signum() == 0 : isMovable(column));
  }

  private static boolean isMovable(MovedColumn column) {
    BigDecimal step = column.moved.abs();
    return step.compareTo(BigDecimal.valueOf(Long.MAX_VALUE / 2)) < 0;
  }

  /** The value's code as a bound of those of the rows. */
  CodeBound bound(DataType codes, long offset, boolean open) {
    return new CodeBound(
        lower,
        strict,
        column.moved.negate(),
        MovedColumn.scale(codes),
        offset,
        MovedColumn.isFull(codes),
        open,
        orNull && !isApproximate);
  }
}
