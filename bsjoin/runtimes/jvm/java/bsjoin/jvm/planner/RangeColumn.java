package bsjoin.jvm.planner;

import bsjoin.jvm.storage.Types;
import java.math.BigDecimal;
import org.apache.spark.sql.catalyst.expressions.Add;
import org.apache.spark.sql.catalyst.expressions.And;
import org.apache.spark.sql.catalyst.expressions.AttributeReference;
import org.apache.spark.sql.catalyst.expressions.Cast;
import org.apache.spark.sql.catalyst.expressions.DateAdd;
import org.apache.spark.sql.catalyst.expressions.DateSub;
import org.apache.spark.sql.catalyst.expressions.Expression;
import org.apache.spark.sql.catalyst.expressions.GreaterThanOrEqual;
import org.apache.spark.sql.catalyst.expressions.KnownFloatingPointNormalized;
import org.apache.spark.sql.catalyst.expressions.LessThanOrEqual;
import org.apache.spark.sql.catalyst.expressions.Literal;
import org.apache.spark.sql.catalyst.expressions.Subtract;
import org.apache.spark.sql.catalyst.expressions.TimeZoneAwareExpression;
import org.apache.spark.sql.catalyst.expressions.TimestampAddInterval;
import org.apache.spark.sql.catalyst.optimizer.NormalizeNaNAndZero;
import org.apache.spark.sql.types.DataType;
import org.apache.spark.sql.types.DateType;
import org.apache.spark.sql.types.DayTimeIntervalType;
import org.apache.spark.sql.types.Decimal;
import org.apache.spark.sql.types.DecimalType;
import org.apache.spark.sql.types.IntegralType;
import org.apache.spark.sql.types.TimestampNTZType;
import org.apache.spark.sql.types.TimestampType;

/**
 * A column of the table to which a constant is added, and which is cast to types that have all of
 * its values.
 *
 * <p>Spark's sum overflows for some values of the column: it wraps around, or is an error. Between
 * {@link #least} and {@link #greatest} it does not. If there are such values, the ends of 64 bits
 * are not between them either: a bound that would be beyond is there.
 */
public final class RangeColumn {
  private static final long DAY = 86_400_000_000L; // microseconds

  final AttributeReference column;
  final DataType type; // of the expression
  final BigDecimal moved;
  final BigDecimal least;
  final BigDecimal greatest;
  final boolean isLimited; // the sum overflows for some values

  private RangeColumn(
      AttributeReference column, DataType type, BigDecimal moved, BigDecimal least,
      BigDecimal greatest) {
    this.column = column;
    this.type = type;
    this.moved = moved;
    BigDecimal[] own = Types.range(column.dataType());
    isLimited = least.compareTo(own[0]) > 0 || greatest.compareTo(own[1]) < 0;
    BigDecimal step = isLimited && Types.isFull(column.dataType()) ? BigDecimal.ONE : BigDecimal.ZERO;
    this.least = least.max(own[0].add(step));
    this.greatest = greatest.min(own[1].subtract(step));
  }

  /** What an expression is; null for any other one. */
  static RangeColumn of(Expression expression) {
    if (expression instanceof AttributeReference column) {
      BigDecimal[] range = Types.range(column.dataType());
      return new RangeColumn(column, column.dataType(), BigDecimal.ZERO, range[0], range[1]);
    }
    if (expression instanceof KnownFloatingPointNormalized
        || expression instanceof NormalizeNaNAndZero) {
      return of(expression.children().head());
    }
    if (expression instanceof Cast cast) {
      RangeColumn inner = of(cast.child());
      return inner != null && Types.isWider(cast.dataType(), inner.type)
          ? new RangeColumn(
              inner.column, cast.dataType(), inner.moved, inner.least, inner.greatest)
          : null;
    }
    return expression.children().size() == 2 ? sum(expression) : null;
  }

  private static RangeColumn sum(Expression sum) {
    int constant = sum instanceof Add && sum.children().head() instanceof Literal ? 0 : 1;
    Expression right = sum.children().apply(constant);
    Object value = right instanceof Literal literal ? literal.value() : null;
    RangeColumn inner = value == null ? null : of(sum.children().apply(1 - constant));
    BigDecimal added = inner == null ? null : constant(sum, inner.type, right.dataType(), value);
    if (added == null) {
      return null;
    }
    boolean less = sum instanceof Subtract || sum instanceof DateSub;
    BigDecimal moved = inner.moved.add(less ? added.negate() : added);
    BigDecimal[] range = Types.range(sum.dataType());
    RangeColumn found =
        new RangeColumn(
            inner.column, sum.dataType(), moved, inner.least.max(range[0].subtract(moved)),
            inner.greatest.min(range[1].subtract(moved)));
    if (found.least.compareTo(found.greatest) > 0) {
      return null; // each sum overflows
    }
    return found.isLimited && sum.dataType() instanceof DecimalType ? null : found;
  }

  /** What a sum adds; null if that is not exact. */
  private static BigDecimal constant(
      Expression sum, DataType type, DataType constant, Object value) {
    if (sum instanceof Add || sum instanceof Subtract) {
      if (type instanceof IntegralType && constant.equals(type)) {
        return BigDecimal.valueOf(((Number) value).longValue());
      }
      boolean isExact =
          type instanceof DecimalType && constant instanceof DecimalType
              && sum.dataType() instanceof DecimalType
              && Types.scale(sum.dataType()) >= Math.max(Types.scale(type), Types.scale(constant));
      return isExact ? ((Decimal) value).toJavaBigDecimal() : null;
    }
    if (sum instanceof DateAdd || sum instanceof DateSub) {
      return type instanceof DateType && constant instanceof IntegralType
          ? BigDecimal.valueOf(((Number) value).longValue())
          : null;
    }
    if (sum instanceof TimestampAddInterval && constant instanceof DayTimeIntervalType) {
      long micros = (Long) value;
      // Days are those of the time zone, which may have other lengths.
      boolean isExact =
          type instanceof TimestampNTZType
              || type instanceof TimestampType
                  && (micros > -DAY && micros < DAY || isFixed(sum));
      return isExact ? BigDecimal.valueOf(micros) : null;
    }
    return null;
  }

  private static boolean isFixed(Expression sum) {
    return ((TimeZoneAwareExpression) sum).zoneId().getRules().isFixedOffset();
  }

  /** The condition that the sum does not overflow. */
  Expression isWithin() {
    return new And(
        new GreaterThanOrEqual(column, Types.literal(least.longValueExact(), column.dataType())),
        new LessThanOrEqual(column, Types.literal(greatest.longValueExact(), column.dataType())));
  }
}
