package bsjoin.jvm.lookup;

import bsjoin.jvm.storage.Code;
import bsjoin.jvm.storage.Types;
import java.io.Serializable;
import java.math.BigDecimal;
import java.math.BigInteger;
import java.math.RoundingMode;
import java.util.Arrays;
import java.util.List;
import org.apache.spark.sql.types.DataType;
import org.apache.spark.sql.types.DataTypes;
import org.apache.spark.sql.types.Decimal;

/**
 * A bound of a range: from a value to the least, or the greatest, code of the rows within it.
 *
 * <p>Where no code is great or small enough, {@link #isNone} says that no row is found. A bound may
 * move the value, and codes may have more or fewer digits than it: all of that is one sum, and a
 * division where the value has more. Doubles are added as Spark adds them, in its order: NaN is the
 * greatest.
 */
public class RangeBound implements Serializable {
  private static final BigInteger LEAST = BigInteger.valueOf(Long.MIN_VALUE);
  private static final BigInteger GREATEST = BigInteger.valueOf(Long.MAX_VALUE);

  private final boolean lower;
  private final int scale; // of the value
  private final BigInteger factor;
  private final BigInteger sum;
  private final BigInteger unit;
  private final double width; // what is added to a double
  private boolean open;
  private boolean orNull;
  private boolean orAny;
  private boolean near;

  private final long safe; // between it and its negative a long is not too long for the next three
  private final long times;
  private final long plus;
  private final long per;

  /**
   * A bound.
   *
   * @param lower the least code is bounded; else the greatest
   * @param inclusive a row with the value itself is within
   * @param moved what is added to the value; an exact number, or a double to doubles
   * @param scale digits after the point that the value has
   * @param codes digits after the point that the codes have
   * @param offset what is added to the code
   */
  public RangeBound(
      boolean lower, boolean inclusive, Number moved, int scale, int codes, long offset) {
    this.lower = lower;
    this.scale = scale;
    int digits = Math.max(scale, codes);
    BigDecimal exact = moved instanceof BigDecimal ? (BigDecimal) moved : BigDecimal.ZERO;
    width = moved instanceof BigDecimal ? 0 : moved.doubleValue();
    exact = exact.scaleByPowerOfTen(digits);
    BigInteger added =
        exact.setScale(0, lower ? RoundingMode.CEILING : RoundingMode.FLOOR).toBigInteger();
    // An exclusive bound between two codes is the same as an inclusive one.
    if (!inclusive && exact.compareTo(new BigDecimal(added)) == 0) {
      added = added.add(BigInteger.valueOf(lower ? 1 : -1));
    }
    factor = BigInteger.TEN.pow(digits - scale);
    unit = BigInteger.TEN.pow(digits - codes);
    added = lower ? added.add(unit).subtract(BigInteger.ONE) : added; // the division rounds down
    sum = added.add(unit.multiply(BigInteger.valueOf(offset)));
    BigInteger room = GREATEST.subtract(sum.abs());
    boolean isShort = room.signum() >= 0 && factor.max(unit).bitLength() < Long.SIZE;
    safe = isShort ? room.divide(factor).longValue() : -1;
    times = factor.longValue();
    plus = sum.longValue();
    per = unit.longValue();
  }

  /**
   * A bound of codes, or of ranks, as the type is that the range columns are searched in.
   *
   * @param type of the range columns
   */
  public static RangeBound of(
      boolean lower, boolean inclusive, Number moved, int scale, DataType type, long offset) {
    int codes = Types.scale(type);
    return Types.isRanked(type)
        ? new RankBound(lower, inclusive, (BigDecimal) moved, scale, codes, offset)
        : new RangeBound(lower, inclusive, moved, scale, codes, offset);
  }

  public DataType type() {
    return DataTypes.LongType;
  }

  /** Where no code is great or small enough, be at the end of 64 bits. */
  public RangeBound open(boolean isOpen) {
    open = isOpen;
    return this;
  }

  /** Be the greatest code for a null, for which no row is found else. */
  public RangeBound orNull(boolean isOfNull) {
    orNull = isOfNull;
    return this;
  }

  /** Leave out nothing for a null, for which no row is found else. */
  public RangeBound orAny(boolean isAny) {
    orAny = isAny;
    return this;
  }

  /**
   * Be within a distance: from NaN nothing has one, from an infinity only itself, and from a finite
   * double no infinity.
   */
  public RangeBound near() {
    near = true;
    return this;
  }

  /** Whether a whole number is its own bound. */
  boolean isIdentity() {
    return sum.signum() == 0 && factor.equals(unit) && !isOfNull();
  }

  /** Whether no row may be found for a value that is no double. */
  boolean mayBeNone() {
    return !open;
  }

  /** Whether a null has a bound. */
  boolean isOfNull() {
    return orNull || orAny;
  }

  final boolean isAny() {
    return orAny;
  }

  /** The bound of a null, if it has one. */
  public Object ofNull() {
    return isAny() ? limit() : (Long) Long.MAX_VALUE;
  }

  /** The bound that leaves out nothing. */
  public Object limit() {
    return lower ? Long.MIN_VALUE : Long.MAX_VALUE;
  }

  /** The bound of a value of any type; null if no row is found. */
  Object of(Object value) {
    if (value == null) {
      return isOfNull() ? ofNull() : null;
    }
    if (value instanceof Decimal) {
      return isNone((Decimal) value) ? null : (Long) code((Decimal) value);
    }
    if (value instanceof Double || value instanceof Float) {
      return code(((Number) value).doubleValue());
    }
    long number = ((Number) value).longValue();
    return isNone(number) ? null : (Long) code(number);
  }

  /** Whether no row is found for a value in units of its last digit. */
  public boolean isNone(long value) {
    return !isSafe(value) && isNone(BigInteger.valueOf(value));
  }

  /** The bound for a value in units of its last digit. */
  public long code(long value) {
    if (isSafe(value)) {
      long code = value * times + plus;
      return per == 1 ? code : Math.floorDiv(code, per);
    }
    return code(BigInteger.valueOf(value));
  }

  private boolean isSafe(long value) {
    return value <= safe && value >= -safe;
  }

  public boolean isNone(Decimal value) {
    return isLong(value) ? isNone(value.toUnscaledLong()) : isNone(unscaled(value));
  }

  public long code(Decimal value) {
    return isLong(value) ? code(value.toUnscaledLong()) : code(unscaled(value));
  }

  private boolean isLong(Decimal value) {
    return value.precision() <= Decimal.MAX_LONG_DIGITS() && value.scale() == scale;
  }

  final BigInteger unscaled(Decimal value) {
    return value.toJavaBigDecimal().scaleByPowerOfTen(scale).toBigInteger();
  }

  private boolean isNone(BigInteger value) {
    BigInteger code = exact(value);
    return !open && (lower ? code.compareTo(GREATEST) > 0 : code.compareTo(LEAST) < 0);
  }

  private long code(BigInteger value) {
    return clamped(exact(value));
  }

  /** A number as a long, or the end of 64 bits that is nearest to it. */
  static long clamped(BigInteger value) {
    return value.min(GREATEST).max(LEAST).longValue();
  }

  private BigInteger exact(BigInteger value) {
    return divided(value)[0];
  }

  /** The moved value in the units of the codes: see {@link #divided(BigInteger, BigInteger)}. */
  final BigInteger[] divided(BigInteger value) {
    return divided(value.multiply(factor).add(sum), unit);
  }

  /** A quotient, rounded down, and what is not 0 if the exact one is above it. */
  static BigInteger[] divided(BigInteger value, BigInteger unit) {
    BigInteger[] parts = value.divideAndRemainder(unit);
    if (parts[1].signum() < 0) {
      parts[0] = parts[0].subtract(BigInteger.ONE);
    }
    return parts;
  }

  /** The bound for a floating-point number: codes of doubles are not at the ends of 64 bits. */
  public long code(double value) {
    if (Double.isInfinite(width) && !near) {
      return lower ? Long.MIN_VALUE : Long.MAX_VALUE; // no limit, of an infinity and NaN neither
    }
    double moved = value + width;
    if (near && Double.isNaN(value)) {
      return lower ? Long.MAX_VALUE : Long.MIN_VALUE; // no row is within
    }
    if (near) {
      double finite = Math.max(-Double.MAX_VALUE, Math.min(moved, Double.MAX_VALUE));
      moved = Double.isInfinite(value) ? value : finite;
    }
    return Code.of(moved) + plus;
  }

  List<Object> parts() {
    return Arrays.asList(lower, scale, factor, sum, unit, width, open, orNull, orAny, near);
  }

  @Override
  public boolean equals(Object other) {
    return other instanceof RangeBound
        && other.getClass() == getClass()
        && parts().equals(((RangeBound) other).parts());
  }

  @Override
  public int hashCode() {
    return parts().hashCode();
  }

  @Override
  public String toString() {
    return lower ? "least" : "greatest";
  }
}
