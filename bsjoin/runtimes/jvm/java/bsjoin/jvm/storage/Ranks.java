package bsjoin.jvm.storage;

import java.math.BigInteger;
import java.util.Arrays;
import org.apache.spark.unsafe.Platform;
import org.apache.spark.unsafe.types.UTF8String;

/**
 * The distinct values of a segment's range columns, ascending, where these are texts, binaries or
 * decimals of more than 18 digits: {@code OrderedDictionary} of {@code
 * bsjoin/index/ordered_dictionary.py}.
 *
 * <p>The value of rank {@code r} has the code {@code 2 r + 1}; a value between two of them has the
 * even code between theirs. Values are compared by their bytes, those of decimals are in {@link
 * #text}. A search compares eight bytes of them first, behind those that all have in common. All of
 * it is checked in one pass when the segment is opened.
 */
public final class Ranks {
  public static final int WIDE = 16;

  private static final int PIECE = 8;

  private final Mapping file;
  private final long ends;
  private final long text;
  private final long length; // of all values
  private final long prefixes;
  private final long count;
  private final UTF8String common; // the pieces that all values begin with, and go on behind

  /** {@code first} is the buffer that the first of their arrays begins with. */
  Ranks(ArrowFile arrow, int first) {
    file = arrow.file;
    count = arrow.length(first + 3) / 8 - 1;
    boolean isWhole = count > 0 && arrow.length(first + 11) == 8 * count;
    file.check(isWhole, "it has other ranks than prefixes");
    ends = arrow.offset(first + 3, 8);
    length = arrow.length(first + 7);
    text = arrow.offset(first + 7, 0);
    prefixes = arrow.offset(first + 11, 8 * count);
    boolean isFilled = file.getLong(ends) == 0 && end(count - 1) == length;
    file.check(isFilled, "the ranked values do not fill their bytes");
    common = common(value(0), value(count - 1));
    validate();
  }

  private void validate() {
    UTF8String before = null;
    for (long rank = 0; rank < count; rank++) {
      UTF8String value = value(rank);
      file.check(before == null || before.compareTo(value) < 0, "the distinct values fall at rank ", rank);
      file.check(prefix(rank) == piece(value), "a prefix is wrong at rank ", rank);
      before = value;
    }
  }

  /** Check that points, or starts, and last points are codes of values. */
  void validate(Points points, Intervals intervals, int rows) {
    long last = 2 * count - 1;
    for (int row = 0; row < rows; row++) {
      long code = points.value(row);
      file.check(code >= 1 && code <= last && code % 2 == 1, "the point has no stored value at row ", row);
      long end = intervals == null ? 0 : intervals.last(row);
      boolean isEnd = end >= 0 && end <= last || end == Long.MIN_VALUE || end == Long.MAX_VALUE;
      file.check(isEnd, "the last point has no stored value at row ", row);
    }
  }

  /** The pieces of eight bytes that two values have in common, with more behind them in both. */
  private static UTF8String common(UTF8String one, UTF8String other) {
    byte[] first = one.getBytes();
    byte[] last = other.getBytes();
    int differs = Arrays.mismatch(first, last); // -1: there is one value only
    int most = Math.min(differs, Math.min(first.length, last.length) - 1);
    return UTF8String.fromBytes(first, 0, Math.max(0, most) / PIECE * PIECE);
  }

  /** Eight bytes of a value behind those in common, filled up with zeros, as an unsigned image. */
  private long piece(UTF8String value) {
    int begin = common.numBytes();
    int size = value.numBytes() - begin;
    long at = value.getBaseOffset() + begin;
    long found = 0;
    if (size >= PIECE) {
      found = Long.reverseBytes(Platform.getLong(value.getBaseObject(), at));
    } else {
      for (int i = 0; i < size; i++) {
        long next = Platform.getByte(value.getBaseObject(), at + i) & 0xffL;
        found |= next << Long.SIZE - Byte.SIZE * (i + 1);
      }
    }
    return found ^ Long.MIN_VALUE;
  }

  private long prefix(long rank) {
    return file.getLong(prefixes + 8 * rank);
  }

  private long end(long rank) {
    return file.getLong(ends + 8 * rank + 8);
  }

  private UTF8String value(long rank) {
    long begin = file.getLong(ends + 8 * rank);
    long size = end(rank) - begin;
    boolean isInside = begin >= 0 && size >= 0 && begin <= length - size && size <= Mapping.LONGEST;
    file.check(isInside, "the ranked value is not inside of its bytes at rank ", rank);
    return UTF8String.fromAddress(null, file.address(text + begin), (int) size);
  }

  /**
   * The code of a value: odd if it is stored, 0 if it is below all that are.
   *
   * @param bytes the value, and maybe more
   * @param size its length
   */
  public long code(byte[] bytes, int size) {
    UTF8String wanted = UTF8String.fromAddress(bytes, Platform.BYTE_ARRAY_OFFSET, size);
    int shared = common.numBytes();
    int order = UTF8String.fromBytes(bytes, 0, Math.min(size, shared)).compareTo(common);
    if (order != 0) {
      return order < 0 ? 0 : 2 * count;
    }
    long piece = piece(wanted);
    long low = 0;
    long high = count;
    while (low < high) {
      long middle = low + high >>> 1;
      long prefix = prefix(middle);
      order = prefix == piece ? value(middle).compareTo(wanted) : Long.compare(prefix, piece);
      if (order == 0) {
        return 2 * middle + 1;
      }
      low = order < 0 ? middle + 1 : low;
      high = order < 0 ? high : middle;
    }
    return 2 * low;
  }

  /** The number whose {@link #text} has a code. */
  public BigInteger number(long code) {
    byte[] bytes = value(code >> 1).getBytes();
    file.check(bytes.length == WIDE, "the ranked value is no decimal at rank ", code >> 1);
    return number(bytes);
  }

  /**
   * Negative if between two values there is less than between two others, 0 if there is as much. A
   * binary value is a fraction, its first byte the first one behind the point: filled up with zeros,
   * values of any size are numbers of as many bytes.
   */
  public int compareBetween(long start, long end, long otherStart, long otherEnd) {
    UTF8String from = value(start >> 1);
    UTF8String to = value(end >> 1);
    UTF8String otherFrom = value(otherStart >> 1);
    UTF8String otherTo = value(otherEnd >> 1);
    int size = Math.max(from.numBytes(), to.numBytes());
    size = Math.max(size, Math.max(otherFrom.numBytes(), otherTo.numBytes()));
    BigInteger between = filled(to, size).subtract(filled(from, size));
    return between.compareTo(filled(otherTo, size).subtract(filled(otherFrom, size)));
  }

  private static BigInteger filled(UTF8String value, int size) {
    return new BigInteger(1, Arrays.copyOf(value.getBytes(), size));
  }

  /** The number that begins some bytes as {@link #text}. */
  public static BigInteger number(byte[] text) {
    byte[] bytes = Arrays.copyOf(text, WIDE);
    bytes[0] ^= Byte.MIN_VALUE;
    return new BigInteger(bytes);
  }

  /**
   * A number of up to 128 bits as bytes in the same order: two's complement with the sign bit
   * inverted, the most significant byte first.
   *
   * @param more how many zeros follow
   */
  public static byte[] text(BigInteger number, int more) {
    byte[] bytes = number.toByteArray();
    byte[] found = new byte[WIDE + more];
    Arrays.fill(found, 0, WIDE, (byte) (number.signum() >> 1));
    System.arraycopy(bytes, 0, found, WIDE - bytes.length, bytes.length);
    found[0] ^= Byte.MIN_VALUE;
    return found;
  }
}
