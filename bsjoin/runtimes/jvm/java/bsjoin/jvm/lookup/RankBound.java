package bsjoin.jvm.lookup;

import bsjoin.jvm.storage.Ranks;
import java.math.BigDecimal;
import java.math.BigInteger;
import java.math.RoundingMode;
import java.util.Arrays;
import java.util.List;
import org.apache.spark.sql.types.DataType;
import org.apache.spark.sql.types.DataTypes;
import org.apache.spark.sql.types.Decimal;
import org.apache.spark.unsafe.Platform;
import org.apache.spark.unsafe.types.UTF8String;

/**
 * A bound whose code is a rank, which each segment has its own of: see {@link Ranks}.
 *
 * <p>So it is the bytes of the value, and one more: how many codes it is from the value's to the
 * bound. Without a value that byte is {@link Byte#MAX_VALUE} or {@link Byte#MIN_VALUE}: all rows are
 * within. A decimal with more digits than the stored ones is between two of them: it is the one below
 * it and a zero, which is above that and below the next one.
 */
public final class RankBound extends RangeBound {
  private static final byte[] ALL_BELOW = {Byte.MAX_VALUE};
  private static final byte[] ALL_ABOVE = {Byte.MIN_VALUE};
  private static final BigInteger MOST =
      BigInteger.ONE.shiftLeft(8 * Ranks.WIDE - 1).subtract(BigInteger.ONE);

  private final boolean lower;
  private final boolean further; // moved by a fraction of a unit more than the sum
  private final byte step; // from the code of the value

  /** A bound, with the arguments of a {@link RangeBound}. */
  public RankBound(
      boolean lower, boolean inclusive, BigDecimal moved, int scale, int codes, long offset) {
    super(false, true, moved, scale, codes, 0); // it rounds down
    this.lower = lower;
    BigDecimal exact = moved.scaleByPowerOfTen(Math.max(scale, codes));
    further = exact.compareTo(exact.setScale(0, RoundingMode.FLOOR)) != 0;
    step = (byte) ((inclusive ? 0 : lower ? 1 : -1) + offset);
  }

  /** The least or the greatest code, if there is no bound. */
  public static byte[] all(boolean lower) {
    return lower ? ALL_ABOVE : ALL_BELOW;
  }

  @Override
  public DataType type() {
    return DataTypes.BinaryType;
  }

  @Override
  boolean isIdentity() {
    return false;
  }

  @Override
  boolean mayBeNone() {
    return false;
  }

  @Override
  public byte[] limit() {
    return all(lower);
  }

  @Override
  public byte[] ofNull() {
    return isAny() ? limit() : ALL_BELOW;
  }

  @Override
  byte[] of(Object value) {
    if (value == null) {
      return isOfNull() ? ofNull() : null;
    }
    if (value instanceof UTF8String) {
      return text((UTF8String) value);
    }
    if (value instanceof byte[]) {
      return text((byte[]) value);
    }
    return value instanceof Decimal ? text((Decimal) value) : text(((Number) value).longValue());
  }

  public byte[] text(UTF8String value) {
    int size = value.numBytes();
    byte[] found = new byte[size + 1];
    value.writeToMemory(found, Platform.BYTE_ARRAY_OFFSET);
    found[size] = step;
    return found;
  }

  public byte[] text(byte[] value) {
    byte[] found = Arrays.copyOf(value, value.length + 1);
    found[value.length] = step;
    return found;
  }

  public byte[] text(Decimal value) {
    return text(unscaled(value));
  }

  public byte[] text(long value) {
    return text(BigInteger.valueOf(value));
  }

  private byte[] text(BigInteger value) {
    BigInteger[] parts = divided(value);
    boolean isBetween = further || parts[1].signum() != 0;
    byte[] found = Ranks.text(parts[0].min(MOST).max(MOST.negate()), isBetween ? 2 : 1);
    found[found.length - 1] = step;
    return found;
  }

  @Override
  List<Object> parts() {
    return Arrays.asList(super.parts(), lower, further, step);
  }

  @Override
  public String toString() {
    return lower ? "least" : "greatest";
  }
}
