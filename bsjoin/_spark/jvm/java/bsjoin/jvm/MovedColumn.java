package bsjoin.jvm;

import java.math.BigDecimal;
import org.apache.spark.sql.catalyst.expressions.Add;
import org.apache.spark.sql.catalyst.expressions.AttributeReference;
import org.apache.spark.sql.catalyst.expressions.Cast;
import org.apache.spark.sql.catalyst.expressions.DateAdd;
import org.apache.spark.sql.catalyst.expressions.DateSub;
import org.apache.spark.sql.catalyst.expressions.Expression;
import org.apache.spark.sql.catalyst.expressions.KnownFloatingPointNormalized;
import org.apache.spark.sql.catalyst.expressions.Literal;
import org.apache.spark.sql.catalyst.expressions.Subtract;
import org.apache.spark.sql.catalyst.expressions.TimeZoneAwareExpression;
import org.apache.spark.sql.catalyst.optimizer.NormalizeNaNAndZero;
import org.apache.spark.sql.types.DataType;
import org.apache.spark.sql.types.DateType;
import org.apache.spark.sql.types.DayTimeIntervalType;
import org.apache.spark.sql.types.Decimal;
import org.apache.spark.sql.types.DecimalType;
import org.apache.spark.sql.types.DoubleType;
import org.apache.spark.sql.types.FloatType;
import org.apache.spark.sql.types.IntegralType;
import org.apache.spark.sql.types.LongType;
import org.apache.spark.sql.types.TimestampNTZType;
import org.apache.spark.sql.types.TimestampType;

/**
 * A column of the table to which a constant is added, and which is cast to types that have all of
 * its values.
 *
 * <p>Spark's sum overflows for some values of the column: it wraps around, or is an error. Between
 * {@link #least} and {@link #greatest} it does not. If there are such values, the ends of 64 bits
 * are not between them either.
 */
final class MovedColumn {
  private static final long DAY = 86_400_000_000L; // microseconds

  final AttributeReference column;
  final DataType type; // of the expression
  final BigDecimal moved;
  final BigDecimal least; // null: no value of the column is too small
  final BigDecimal greatest; // null: none is too great

  private MovedColumn(
      AttributeReference column, DataType type, BigDecimal moved, BigDecimal least,
      BigDecimal greatest) {
    this.column = column;
    this.type = type;
    this.moved = moved;
    this.least = least;
    this.greatest = greatest;
  }

  /** Whether the sum overflows for some values. */
  boolean isLimited() {
    return least != null || greatest != null;
  }

  /** What an expression is; null for any other one. */
  static MovedColumn of(Expression expression) {
    if (expression instanceof AttributeReference) {
      return new MovedColumn(
          (AttributeReference) expression, expression.dataType(), BigDecimal.ZERO, null, null);
    }
    if (expression instanceof KnownFloatingPointNormalized
        || expression instanceof NormalizeNaNAndZero) {
      return of(expression.children().head());
    }
    if (expression instanceof Cast) {
      MovedColumn inner = of(((Cast) expression).child());
      return inner != null && isWider(expression.dataType(), inner.type)
          ? new MovedColumn(
              inner.column, expression.dataType(), inner.moved, inner.least, inner.greatest)
          : null;
    }
    return expression.children().size() == 2 ? sum(expression) : null;
  }

  private static MovedColumn sum(Expression sum) {
    Expression left = sum.children().head();
    Expression right = sum.children().apply(1);
    if (sum instanceof Add && left instanceof Literal) {
      Expression other = left;
      left = right;
      right = other;
    }
    Object value = right instanceof Literal ? ((Literal) right).value() : null;
    MovedColumn inner = value == null ? null : of(left);
    BigDecimal constant = inner == null ? null : constant(sum, inner.type, right.dataType(), value);
    if (constant == null) {
      return null;
    }
    boolean less = sum instanceof Subtract || sum instanceof DateSub;
    BigDecimal moved = inner.moved.add(less ? constant.negate() : constant);
    BigDecimal[] range = range(sum.dataType());
    BigDecimal[] own = range(inner.column.dataType());
    BigDecimal least = max(inner.least, range[0].subtract(moved));
    BigDecimal greatest = min(inner.greatest, range[1].subtract(moved));
    least = least.compareTo(own[0]) > 0 ? least : null;
    greatest = greatest.compareTo(own[1]) < 0 ? greatest : null;
    if ((least != null || greatest != null) && isFull(inner.column.dataType())) {
      // Where the bound would be beyond 64 bits it is at their end: no row within has that code.
      least = max(least, own[0].add(BigDecimal.ONE));
      greatest = min(greatest, own[1].subtract(BigDecimal.ONE));
    }
    boolean isDecimal = sum.dataType() instanceof DecimalType; // which has room for the sum
    return isDecimal && (least != null || greatest != null)
        ? null
        : new MovedColumn(inner.column, sum.dataType(), moved, least, greatest);
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
              && scale(sum.dataType()) >= Math.max(scale(type), scale(constant));
      return isExact ? ((Decimal) value).toJavaBigDecimal() : null;
    }
    if (sum instanceof DateAdd || sum instanceof DateSub) {
      return type instanceof DateType && constant instanceof IntegralType
          ? BigDecimal.valueOf(((Number) value).longValue())
          : null;
    }
    if (isTimestampPlusInterval(sum) && constant instanceof DayTimeIntervalType) {
      long micros = (Long) value;
      // Days are those of the time zone, which may have other lengths.
      boolean isExact =
          type instanceof TimestampNTZType
              || type instanceof TimestampType
                  && (Math.abs(micros) < DAY || hasFixedOffset((TimeZoneAwareExpression) sum));
      return isExact ? BigDecimal.valueOf(micros) : null;
    }
    return null;
  }

  /** Whether an expression adds an interval to a timestamp: its class has had another name. */
  static boolean isTimestampPlusInterval(Expression expression) {
    String name = expression.getClass().getSimpleName();
    return (name.equals("TimestampAddInterval") || name.equals("TimeAdd"))
        && expression instanceof TimeZoneAwareExpression;
  }

  private static boolean hasFixedOffset(TimeZoneAwareExpression sum) {
    return sum.zoneId().getRules().isFixedOffset();
  }

  /** Whether a cast to a type changes no value of another one, and not their order. */
  static boolean isWider(DataType type, DataType than) {
    if (type.equals(than)) {
      return true;
    }
    if (than instanceof IntegralType && type instanceof IntegralType) {
      return than.defaultSize() < type.defaultSize();
    }
    if (than instanceof FloatType) {
      return type instanceof DoubleType;
    }
    if (type instanceof DecimalType && than instanceof DecimalType) {
      return scale(type) >= scale(than) && digitsBefore(type) >= digitsBefore(than);
    }
    return type instanceof DecimalType && than instanceof IntegralType
        && digitsBefore(type) >= digits(than);
  }

  /** Whether the values of a type take all of 64 bits. */
  static boolean isFull(DataType type) {
    return type instanceof LongType || type instanceof TimestampType
        || type instanceof TimestampNTZType;
  }

  static int scale(DataType type) {
    return type instanceof DecimalType ? ((DecimalType) type).scale() : 0;
  }

  private static int digitsBefore(DataType type) {
    return ((DecimalType) type).precision() - scale(type);
  }

  /** The digits before the point that the values of an exact number may have. */
  static int digits(DataType type) {
    return type instanceof DecimalType ? digitsBefore(type) : range(type)[1].precision();
  }

  /** The least and the greatest value of a type that is a number, a date or a timestamp. */
  static BigDecimal[] range(DataType type) {
    if (type instanceof DecimalType) {
      BigDecimal end =
          BigDecimal.ONE.scaleByPowerOfTen(((DecimalType) type).precision())
              .subtract(BigDecimal.ONE).scaleByPowerOfTen(-scale(type));
      return new BigDecimal[] {end.negate(), end};
    }
    int bits = 8 * type.defaultSize();
    BigDecimal end = BigDecimal.valueOf(2).pow(bits - 1);
    return new BigDecimal[] {end.negate(), end.subtract(BigDecimal.ONE)};
  }

  private static BigDecimal max(BigDecimal one, BigDecimal other) {
    return one == null ? other : one.max(other);
  }

  private static BigDecimal min(BigDecimal one, BigDecimal other) {
    return one == null ? other : one.min(other);
  }
}
