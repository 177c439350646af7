package bsjoin.jvm;

import com.fasterxml.jackson.databind.JsonNode;
import org.apache.spark.sql.types.DataType;
import org.apache.spark.sql.types.DataTypes;
import org.apache.spark.sql.types.Decimal;

/**
 * From a value to its code of 64 bits, which compares as Spark compares values: {@code
 * bsjoin/index/encoding.py}.
 */
public abstract class Code extends Function<Long> {
  Code(String spec, JsonNode node, DataType type) {
    super(spec, node, DataTypes.LongType, type);
  }

  @Override
  public String name() {
    return "bsjoin_code";
  }

  /** The code of a double: NaN is above all others and equal to itself, -0.0 equals 0.0. */
  static long of(double value) {
    return flipped(Double.doubleToLongBits(value + 0.0));
  }

  /** The inverse of {@link #of}. */
  static double toDouble(long code) {
    return Double.longBitsToDouble(flipped(code));
  }

  /** The bits of negative doubles are in reverse order: all of them inverted but the sign. */
  private static long flipped(long bits) {
    return bits ^ (bits >> 63 & Long.MAX_VALUE);
  }

  /** Of numbers and times that are stored as long. */
  public static final class OfLong extends Code {
    OfLong(String spec, JsonNode node, DataType type) {
      super(spec, node, type);
    }

    public long invoke(long value) {
      return value;
    }
  }

  /** Of dates. */
  public static final class OfInt extends Code {
    OfInt(String spec, JsonNode node, DataType type) {
      super(spec, node, type);
    }

    public long invoke(int value) {
      return value;
    }
  }

  public static final class OfDouble extends Code {
    OfDouble(String spec, JsonNode node, DataType type) {
      super(spec, node, type);
    }

    public long invoke(double value) {
      return of(value);
    }
  }

  /** Of decimals of up to 18 digits: their number in units of the last digit, or in larger ones. */
  public static final class OfDecimal extends Code {
    private final long unit;
    private final boolean up; // to the next code, not down

    OfDecimal(String spec, JsonNode node, DataType type) {
      super(spec, node, type);
      unit = node.path("unit").asLong(1);
      up = node.path("up").asBoolean();
    }

    public long invoke(Decimal value) {
      long number = value.toUnscaledLong();
      if (unit == 1) {
        return number;
      }
      return up ? -Math.floorDiv(-number, unit) : Math.floorDiv(number, unit);
    }
  }
}
