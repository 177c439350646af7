package bsjoin.jvm;

import java.math.BigDecimal;
import org.apache.spark.sql.catalyst.expressions.Add;
import org.apache.spark.sql.catalyst.expressions.And;
import org.apache.spark.sql.catalyst.expressions.AttributeReference;
import org.apache.spark.sql.catalyst.expressions.Cast;
import org.apache.spark.sql.catalyst.expressions.Coalesce;
import org.apache.spark.sql.catalyst.expressions.DateAdd;
import org.apache.spark.sql.catalyst.expressions.DateSub;
import org.apache.spark.sql.catalyst.expressions.Expression;
import org.apache.spark.sql.catalyst.expressions.GreaterThanOrEqual;
import org.apache.spark.sql.catalyst.expressions.KnownFloatingPointNormalized;
import org.apache.spark.sql.catalyst.expressions.LessThanOrEqual;
import org.apache.spark.sql.catalyst.expressions.Literal;
import org.apache.spark.sql.catalyst.expressions.Multiply;
import org.apache.spark.sql.catalyst.expressions.Subtract;
import org.apache.spark.sql.catalyst.expressions.UnaryMinus;
import org.apache.spark.sql.catalyst.optimizer.NormalizeNaNAndZero;
import org.apache.spark.sql.types.DataType;
import org.apache.spark.sql.types.DataTypes;
import org.apache.spark.sql.types.DateType;
import org.apache.spark.sql.types.DecimalType;
import org.apache.spark.sql.types.DoubleType;
import org.apache.spark.sql.types.FloatType;
import org.apache.spark.sql.types.IntegralType;
import org.apache.spark.sql.types.NumericType;
import org.apache.spark.sql.types.TimestampNTZType;
import org.apache.spark.sql.types.TimestampType;

/** Which expressions of the stream's columns Spark evaluates without errors, such as overflows. */
final class StreamValue {
  private static final long TWO_DAYS = 2 * 86_400_000_000L; // microseconds
  private static final int DAYS = 100_000_000; // as a timestamp these are within 64 bits

  private StreamValue() {}

  /** Whether there are no errors, whatever the values of the columns. */
  static boolean isSafe(Expression value) {
    if (value instanceof AttributeReference || value instanceof Literal) {
      return true;
    }
    if (value instanceof Cast) {
      DataType from = ((Cast) value).child().dataType();
      boolean isExact = MovedColumn.isWider(value.dataType(), from);
      return (isExact || from instanceof NumericType && isFloating(value.dataType()))
          && isSafe(((Cast) value).child());
    }
    boolean isArithmetic =
        value instanceof Add || value instanceof Subtract || value instanceof Multiply
            || value instanceof UnaryMinus;
    boolean isClosed =
        isArithmetic && isFloating(value.dataType())
            || (value instanceof Add || value instanceof Subtract)
                && value.dataType() instanceof DecimalType
                && ((DecimalType) value.dataType()).precision() < DecimalType.MAX_PRECISION()
            || value instanceof DateAdd || value instanceof DateSub || value instanceof Coalesce
            || value instanceof KnownFloatingPointNormalized
            || value instanceof NormalizeNaNAndZero;
    return isClosed && Scala.list(value.children()).stream().allMatch(StreamValue::isSafe);
  }

  private static boolean isFloating(DataType type) {
    return type instanceof DoubleType || type instanceof FloatType;
  }

  /**
   * A condition that is cheap to check, and under which there are no errors; null if none is known.
   */
  static Expression guard(Expression value) {
    if (value instanceof Cast) {
      Expression inner = ((Cast) value).child();
      DataType type = value.dataType();
      if (inner.dataType() instanceof DateType
          && (type instanceof TimestampType || type instanceof TimestampNTZType)) {
        return isSafe(inner) ? between(inner, -DAYS, DAYS) : null;
      }
      return MovedColumn.isWider(type, inner.dataType()) ? guard(inner) : null;
    }
    if (value.children().size() != 2) {
      return null;
    }
    Expression left = value.children().head();
    Expression right = value.children().apply(1);
    if (value instanceof Add && left instanceof Literal) {
      Expression other = left;
      left = right;
      right = other;
    }
    Object constant = right instanceof Literal ? ((Literal) right).value() : null;
    if (constant == null || !isSafe(left)) {
      return null;
    }
    DataType type = left.dataType();
    boolean isSum = value instanceof Add || value instanceof Subtract;
    boolean isWhole = isSum && type instanceof IntegralType;
    boolean isTime = MovedColumn.isTimestampPlusInterval(value) && constant instanceof Long;
    if (!isWhole && !isTime) {
      return null;
    }
    BigDecimal width = BigDecimal.valueOf(((Number) constant).longValue()).abs();
    BigDecimal margin = isTime ? width.add(BigDecimal.valueOf(TWO_DAYS)) : width;
    BigDecimal[] range = MovedColumn.range(type);
    BigDecimal least = range[0].add(margin);
    BigDecimal greatest = range[1].subtract(margin);
    return least.compareTo(greatest) > 0
        ? null
        : between(left, least.longValueExact(), greatest.longValueExact());
  }

  /** The condition that a value, which is a whole number to Spark, is between two others. */
  static Expression between(Expression value, long least, long greatest) {
    return new And(
        new GreaterThanOrEqual(value, literal(least, value.dataType())),
        new LessThanOrEqual(value, literal(greatest, value.dataType())));
  }

  /** A whole number as a value of a type. */
  static Literal literal(long value, DataType type) {
    Object stored = value;
    if (type instanceof DateType || type == DataTypes.IntegerType) {
      stored = (int) value;
    } else if (type == DataTypes.ShortType) {
      stored = (short) value;
    } else if (type == DataTypes.ByteType) {
      stored = (byte) value;
    }
    return new Literal(stored, type);
  }
}
