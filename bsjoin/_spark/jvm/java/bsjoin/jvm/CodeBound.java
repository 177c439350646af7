package bsjoin.jvm;

import java.io.Serializable;
import java.math.BigDecimal;
import java.math.BigInteger;
import java.math.RoundingMode;
import java.util.Objects;
import org.apache.spark.sql.types.Decimal;

/**
 * From a value that a range column is compared with to the least, or the greatest, code of the rows
 * for which the comparison holds.
 *
 * <p>Where no code is great or small enough, {@link #isNone} says that no row is found; or the bound
 * is at the end of 64 bits, if such rows are looked at in any case.
 */
public final class CodeBound implements Serializable {
  private static final BigInteger LEAST = BigInteger.valueOf(Long.MIN_VALUE);
  private static final BigInteger GREATEST = BigInteger.valueOf(Long.MAX_VALUE);

  private final boolean lower;
  private final boolean strict;
  private final BigDecimal moved;
  private final int scale;
  private final long offset;
  private final boolean full;
  private final boolean open;
  private final boolean orNull;
  private final long delta; // what all of that adds to a whole number
  private final boolean whole; // nothing else is done to a whole number

  /**
   * @param lower the least code is bounded; else the greatest
   * @param strict a row with the value itself is not found
   * @param moved what is added to the value before it is compared
   * @param scale digits after the point that the codes have
   * @param offset what is added to the code
   * @param full the codes of rows may be any of 64 bits
   * @param open where no code is great or small enough, the bound is the end of 64 bits
   * @param orNull rows with the greatest code are found for a null, too, and no others
   */
  CodeBound(
      boolean lower, boolean strict, BigDecimal moved, int scale, long offset, boolean full,
      boolean open, boolean orNull) {
    this.lower = lower;
    this.strict = strict;
    this.moved = moved;
    this.scale = scale;
    this.offset = offset;
    this.full = full;
    this.open = open;
    this.orNull = orNull;
    whole = scale == 0 && (moved.signum() == 0 || moved.stripTrailingZeros().scale() <= 0);
    delta = (whole ? moved.longValueExact() : 0) + step() + offset;
  }

  /** By how much a strict bound is beyond the code of the value. */
  private int step() {
    if (!strict) {
      return 0;
    }
    return lower ? 1 : -1;
  }

  /** Whether a whole number is its own bound. */
  boolean isIdentity() {
    return whole && delta == 0;
  }

  /** Whether {@link #isNone} may be true. */
  boolean mayBeNone() {
    return full && !open;
  }

  /** Whether a null has a bound, which is the greatest code. */
  boolean isOfNull() {
    return orNull;
  }

  /** The bound that leaves out nothing. */
  long limit() {
    return lower ? Long.MIN_VALUE : Long.MAX_VALUE;
  }

  /** Whether no row is found for a whole number. */
  public boolean isNone(long value) {
    if (!whole) {
      return isNone(BigDecimal.valueOf(value));
    }
    return overflows(value) && delta > 0 == lower;
  }

  /** The bound for a whole number. */
  public long code(long value) {
    if (!whole) {
      return code(BigDecimal.valueOf(value));
    }
    if (overflows(value)) {
      return delta > 0 ? Long.MAX_VALUE : Long.MIN_VALUE;
    }
    return value + delta;
  }

  private boolean overflows(long value) {
    long sum = value + delta;
    return ((value ^ sum) & (delta ^ sum)) < 0;
  }

  /** Whether no row is found for a floating-point number. */
  public boolean isNone(double value) {
    return false; // the codes of doubles are not at the ends of 64 bits
  }

  /** The bound for a floating-point number, in the order of Spark: NaN is the greatest. */
  public long code(double value) {
    return Code.of(value) + step() + offset;
  }

  /** Whether no row is found for a decimal. */
  public boolean isNone(Decimal value) {
    return isNone(value.toJavaBigDecimal());
  }

  /** The bound for a decimal. */
  public long code(Decimal value) {
    if (value.precision() <= Decimal.MAX_LONG_DIGITS() && value.scale() == scale
        && moved.signum() == 0) {
      return value.toUnscaledLong() + step() + offset;
    }
    return code(value.toJavaBigDecimal());
  }

  private boolean isNone(BigDecimal value) {
    BigInteger code = exact(value);
    return lower ? code.compareTo(GREATEST) > 0 : code.compareTo(LEAST) < 0;
  }

  private long code(BigDecimal value) {
    return exact(value).min(GREATEST).max(LEAST).longValue();
  }

  private BigInteger exact(BigDecimal value) {
    BigDecimal code = value.add(moved).scaleByPowerOfTen(scale);
    // A strict bound between two codes is the same as one that is not strict.
    boolean isCode = code.signum() == 0 || code.stripTrailingZeros().scale() <= 0;
    RoundingMode mode = lower ? RoundingMode.CEILING : RoundingMode.FLOOR;
    BigInteger rounded = code.setScale(0, mode).toBigInteger();
    return rounded.add(BigInteger.valueOf((isCode ? step() : 0) + offset));
  }

  @Override
  public boolean equals(Object other) {
    if (!(other instanceof CodeBound)) {
      return false;
    }
    CodeBound that = (CodeBound) other;
    return lower == that.lower && strict == that.strict && moved.equals(that.moved)
        && scale == that.scale && offset == that.offset && full == that.full && open == that.open
        && orNull == that.orNull;
  }

  @Override
  public int hashCode() {
    return Objects.hash(lower, strict, moved, scale, offset, full, open, orNull);
  }

  @Override
  public String toString() {
    return lower ? "least" : "greatest";
  }
}
