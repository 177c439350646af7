package bsjoin.jvm;

import java.math.BigInteger;
import org.apache.spark.sql.types.Decimal;
import org.apache.spark.unsafe.Platform;
import org.apache.spark.unsafe.array.ByteArrayMethods;
import org.apache.spark.unsafe.types.UTF8String;

/**
 * A column of one segment: a bitmap of what is not null, and values of fixed or variable width.
 *
 * <p>The rows that a caller gives are those that {@link Segment#find} has returned. The buffers were
 * checked to hold that many rows when the column was opened; the offsets of a text are checked with
 * every read, which costs less than a pass over all of them.
 */
final class Column {
  private final Mapping file;
  private final long valid; // 0: there are no nulls
  private final long offsets;
  private final long data;
  private final long dataLength;

  /**
   * Open a column.
   *
   * @param arrow its file
   * @param rows how many rows it must have
   * @param type its type
   */
  Column(ArrowFile arrow, long rows, ColumnType type) {
    file = arrow.file;
    byte[] types = arrow.types();
    if (types.length != 1 || types[0] != type.arrow || arrow.rows != rows) {
      throw TableError.damaged(
          file.name, "it does not hold one column of " + rows + " rows of " + type.name);
    }
    if (arrow.buffers() != (type.width == 0 ? 3 : 2)) {
      throw TableError.damaged(file.name, "its column has another number of buffers");
    }
    valid = arrow.has(0) ? arrow.offset(0, (rows + 7) / 8) : 0;
    if (type.width == 0) {
      offsets = arrow.offset(1, 4 * (rows + 1));
      data = arrow.offset(2, 0);
      dataLength = arrow.length(2);
    } else {
      offsets = 0;
      dataLength = type.width < 0 ? (rows + 7) / 8 : type.width * rows;
      data = arrow.offset(1, dataLength);
    }
  }

  boolean isNull(long row) {
    return valid != 0 && (file.getByte(valid + (row >>> 3)) >> (row & 7) & 1) == 0;
  }

  boolean getBoolean(long row) {
    return (file.getByte(data + (row >>> 3)) >> (row & 7) & 1) != 0;
  }

  byte getByte(long row) {
    return file.getByte(data + row);
  }

  short getShort(long row) {
    return Platform.getShort(null, file.address(data + 2 * row));
  }

  int getInt(long row) {
    return file.getInt(data + 4 * row);
  }

  long getLong(long row) {
    return file.getLong(data + 8 * row);
  }

  float getFloat(long row) {
    return Platform.getFloat(null, file.address(data + 4 * row));
  }

  double getDouble(long row) {
    return Platform.getDouble(null, file.address(data + 8 * row));
  }

  /** A decimal, which Arrow stores in 16 bytes, two's complement, the lowest byte first. */
  Decimal getDecimal(long row, int precision, int scale) {
    long at = file.address(data + 16 * row);
    long low = Platform.getLong(null, at);
    if (precision <= Decimal.MAX_LONG_DIGITS()) {
      return Decimal.createUnsafe(low, precision, scale);
    }
    long high = Platform.getLong(null, at + 8);
    BigInteger unscaled =
        BigInteger.valueOf(high).shiftLeft(64).add(new BigInteger(Long.toUnsignedString(low)));
    return Decimal.apply(
        scala.math.BigDecimal.javaBigDecimal2bigDecimal(new java.math.BigDecimal(unscaled, scale)),
        precision,
        scale);
  }

  /** A text, in place: valid for as long as the version is open. */
  UTF8String getText(long row) {
    long begin = begin(row);
    return UTF8String.fromAddress(null, file.address(data + begin), (int) (end(row, begin) - begin));
  }

  byte[] getBinary(long row) {
    long begin = begin(row);
    byte[] found = new byte[(int) (end(row, begin) - begin)];
    Platform.copyMemory(
        null, file.address(data + begin), found, Platform.BYTE_ARRAY_OFFSET, found.length);
    return found;
  }

  boolean equalsText(long row, UTF8String key) {
    long begin = begin(row);
    long length = end(row, begin) - begin;
    return length == key.numBytes()
        && ByteArrayMethods.arrayEquals(
            key.getBaseObject(), key.getBaseOffset(), null, file.address(data + begin), length);
  }

  boolean equalsBinary(long row, byte[] key) {
    long begin = begin(row);
    long length = end(row, begin) - begin;
    return length == key.length
        && ByteArrayMethods.arrayEquals(
            key, Platform.BYTE_ARRAY_OFFSET, null, file.address(data + begin), length);
  }

  private long begin(long row) {
    return file.getInt(offsets + 4 * row);
  }

  private long end(long row, long begin) {
    long end = file.getInt(offsets + 4 * row + 4);
    if (begin < 0 || end < begin || end > dataLength) {
      throw TableError.damaged(file.name, "the offsets of row " + row + " are not in order");
    }
    if (end - begin > Mapping.LARGEST_VALUE) {
      throw new UnsupportedOperationException(
          "row " + row + " of " + file.name + " has a value of " + (end - begin)
              + " bytes, and the JVM reads at most " + Mapping.LARGEST_VALUE
              + ": set spark.bsjoin.runtime to python");
    }
    return end;
  }
}
