package bsjoin.jvm.storage;

/**
 * The code of 64 bits of a double, which compares as Spark compares doubles: {@code
 * bsjoin/index/encoding.py}.
 */
public final class Code {
  private Code() {}

  /** The code of a double: NaN is above all others and equal to itself, -0.0 equals 0.0. */
  public static long of(double value) {
    return flipped(Double.doubleToLongBits(value + 0.0));
  }

  public static double toDouble(long code) {
    return Double.longBitsToDouble(flipped(code));
  }

  /** The bits of negative doubles are in reverse order: all of them inverted but the sign. */
  private static long flipped(long bits) {
    return bits ^ (bits >> 63 & Long.MAX_VALUE);
  }
}
