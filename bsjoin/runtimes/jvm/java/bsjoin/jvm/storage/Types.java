package bsjoin.jvm.storage;

import java.math.BigDecimal;
import org.apache.spark.sql.catalyst.expressions.Literal;
import org.apache.spark.sql.types.DataType;
import org.apache.spark.sql.types.DataTypes;
import org.apache.spark.sql.types.DateType;
import org.apache.spark.sql.types.DayTimeIntervalType;
import org.apache.spark.sql.types.DecimalType;
import org.apache.spark.sql.types.DoubleType;
import org.apache.spark.sql.types.FloatType;
import org.apache.spark.sql.types.IntegralType;
import org.apache.spark.sql.types.LongType;
import org.apache.spark.sql.types.TimestampNTZType;
import org.apache.spark.sql.types.TimestampType;

/** The values that types have. Dates are whole numbers of days, timestamps of microseconds. */
public final class Types {
  private Types() {}

  public static boolean isFloating(DataType type) {
    return type instanceof DoubleType || type instanceof FloatType;
  }

  /** Whether a range column of the type has no codes of 64 bits, but ranks: {@link Ranks}. */
  public static boolean isRanked(DataType type) {
    return !ColumnType.fits8Bytes(type);
  }

  public static boolean isTimestamp(DataType type) {
    return type instanceof TimestampType || type instanceof TimestampNTZType;
  }

  /** Whether the values take all of 64 bits. */
  public static boolean isFull(DataType type) {
    return type instanceof LongType || type instanceof DayTimeIntervalType || isTimestamp(type);
  }

  public static int scale(DataType type) {
    return type instanceof DecimalType ? ((DecimalType) type).scale() : 0;
  }

  /** The digits before the point that the values of an exact number may have. */
  public static int digits(DataType type) {
    return type instanceof DecimalType
        ? ((DecimalType) type).precision() - scale(type)
        : range(type)[1].precision();
  }

  /** The least and the greatest value of a type that is a number, a date or a timestamp. */
  public static BigDecimal[] range(DataType type) {
    if (type instanceof DecimalType) {
      BigDecimal end =
          BigDecimal.ONE.scaleByPowerOfTen(((DecimalType) type).precision())
              .subtract(BigDecimal.ONE).scaleByPowerOfTen(-scale(type));
      return new BigDecimal[] {end.negate(), end};
    }
    BigDecimal end = BigDecimal.valueOf(2).pow(8 * type.defaultSize() - 1);
    return new BigDecimal[] {end.negate(), end.subtract(BigDecimal.ONE)};
  }

  /** Whether a cast to a type changes no value of another one, and not their order. */
  public static boolean isWider(DataType type, DataType than) {
    if (type.equals(than)) {
      return true;
    }
    if (than instanceof FloatType) {
      return type instanceof DoubleType;
    }
    if (than instanceof IntegralType && type instanceof IntegralType) {
      return than.defaultSize() < type.defaultSize();
    }
    return type instanceof DecimalType
        && (than instanceof IntegralType || than instanceof DecimalType)
        && scale(type) >= scale(than) && digits(type) >= digits(than);
  }

  public static Literal literal(long value, DataType type) {
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
