package bsjoin.jvm;

import java.math.BigDecimal;
import java.math.BigInteger;
import org.apache.spark.sql.catalyst.expressions.codegen.CodeGenerator;
import org.apache.spark.sql.types.DataType;
import org.apache.spark.sql.types.Decimal;
import org.apache.spark.sql.types.DecimalType;
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
public final class Column {
  private static final long[] POWERS = powers();

  private final Mapping file;
  final int rows;
  private final long valid; // 0: there are no nulls
  private final long offsets;
  private final long data;
  private final long dataLength;
  private final long width; // of a value in bytes; 0: it has another one

  /**
   * Open a column.
   *
   * @param arrow its file
   * @param rows how many rows it must have
   * @param type its type
   * @param nullable whether it may have nulls
   */
  Column(ArrowFile arrow, int rows, ColumnType type, boolean nullable) {
    file = arrow.file;
    this.rows = rows;
    if (arrow.types.length != 1 || arrow.types[0] != type.arrow || arrow.rows != rows) {
      throw TableError.damaged(
          file.name, "it does not hold one column of " + rows + " rows of " + type.name);
    }
    if (arrow.buffers() != (type.width == 0 ? 3 : 2)) {
      throw TableError.damaged(file.name, "its column has another number of buffers");
    }
    if (arrow.has(0) && !nullable) {
      throw TableError.damaged(file.name, "it has nulls, which the table's schema refuses");
    }
    valid = arrow.has(0) ? arrow.offset(0, (rows + 7L) / 8) : 0;
    width = Math.max(0, type.width);
    if (type.width == 0) {
      offsets = arrow.offset(1, 4L * (rows + 1));
      data = arrow.offset(2, 0);
      dataLength = arrow.length(2);
    } else {
      offsets = 0;
      dataLength = type.width < 0 ? (rows + 7L) / 8 : (long) type.width * rows;
      data = arrow.offset(1, dataLength);
    }
  }

  /**
   * A column without nulls that is a part of another file.
   *
   * @param file the file
   * @param rows how many rows it has
   * @param data where its values of 8 bytes begin; the caller has checked that they end in the file
   */
  Column(Mapping file, int rows, long data) {
    this.file = file;
    this.rows = rows;
    this.data = data;
    dataLength = 8L * rows;
    width = 8;
    valid = 0;
    offsets = 0;
  }

  /** The address of a row's value, or of its offset: see {@link ReadAhead}. */
  long near(long row) {
    return file.address(offsets == 0 ? data + width * row : offsets + 4 * row);
  }

  /** Whether its values are behind offsets. */
  boolean hasOffsets() {
    return offsets != 0;
  }

  /** The address of a row's text; of something else if the text is not in the file. */
  long far(long row) {
    long begin = begin(row);
    return begin >= 0 && begin < dataLength ? file.address(data + begin) : near(row);
  }

  /** Whether there may be nulls. */
  boolean hasNulls() {
    return valid != 0;
  }

  public boolean isNull(long row) {
    return valid != 0 && (file.getByte(valid + (row >>> 3)) >> (row & 7) & 1) == 0;
  }

  public boolean getBoolean(long row) {
    return (file.getByte(data + (row >>> 3)) >> (row & 7) & 1) != 0;
  }

  public byte getByte(long row) {
    return file.getByte(data + row);
  }

  public short getShort(long row) {
    return Platform.getShort(null, file.address(data + 2 * row));
  }

  public int getInt(long row) {
    return file.getInt(data + 4 * row);
  }

  public long getLong(long row) {
    return file.getLong(data + 8 * row);
  }

  public float getFloat(long row) {
    return Platform.getFloat(null, file.address(data + 4 * row));
  }

  public double getDouble(long row) {
    return Platform.getDouble(null, file.address(data + 8 * row));
  }

  /** A decimal, which Arrow stores in 16 bytes, two's complement, the lowest byte first. */
  public Decimal getDecimal(long row, int precision, int scale) {
    long at = file.address(data + 16 * row);
    long low = Platform.getLong(null, at);
    long high = Platform.getLong(null, at + 8);
    if (precision <= Decimal.MAX_LONG_DIGITS()) {
      if (high != low >> 63 || low >= POWERS[precision] || low <= -POWERS[precision]) {
        throw tooManyDigits(row, precision);
      }
      return Decimal.createUnsafe(low, precision, scale);
    }
    BigInteger unscaled =
        BigInteger.valueOf(high).shiftLeft(64).add(new BigInteger(Long.toUnsignedString(low)));
    BigDecimal value = new BigDecimal(unscaled, scale);
    if (value.precision() > precision) {
      throw tooManyDigits(row, precision);
    }
    return Decimal.apply(
        scala.math.BigDecimal.javaBigDecimal2bigDecimal(value), precision, scale);
  }

  private IllegalStateException tooManyDigits(long row, int precision) {
    return TableError.damaged(
        file.name, "the number in row " + row + " has more than " + precision + " digits");
  }

  /** A text, in place: valid for as long as the version is open. */
  public UTF8String getText(long row) {
    long begin = begin(row);
    int length = (int) (end(row, begin) - begin);
    return UTF8String.fromAddress(null, file.address(data + begin), length);
  }

  public byte[] getBinary(long row) {
    long begin = begin(row);
    byte[] found = new byte[(int) (end(row, begin) - begin)];
    Platform.copyMemory(
        null, file.address(data + begin), found, Platform.BYTE_ARRAY_OFFSET, found.length);
    return found;
  }

  /** The value in a row, which is not null. */
  Object get(DataType type, long row) {
    if (type instanceof DecimalType) {
      return getDecimal(row, ((DecimalType) type).precision(), ((DecimalType) type).scale());
    }
    switch (CodeGenerator.javaType(type)) {
      case "boolean":
        return getBoolean(row);
      case "byte":
        return getByte(row);
      case "short":
        return getShort(row);
      case "int":
        return getInt(row);
      case "long":
        return getLong(row);
      case "float":
        return getFloat(row);
      case "double":
        return getDouble(row);
      case "UTF8String":
        return getText(row);
      default:
        return getBinary(row);
    }
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

  private static long[] powers() {
    long[] found = new long[Decimal.MAX_LONG_DIGITS() + 1];
    found[0] = 1;
    for (int i = 1; i < found.length; i++) {
      found[i] = 10 * found[i - 1];
    }
    return found;
  }

  private long begin(long row) {
    return file.getInt(offsets + 4 * row);
  }

  private long end(long row, long begin) {
    long end = file.getInt(offsets + 4 * row + 4);
    if (begin < 0 || end < begin || end > dataLength) {
      throw TableError.damaged(file.name, "the offsets of row " + row + " are not in order");
    }
    if (end - begin > Mapping.LONGEST) {
      throw TableError.damaged(
          file.name, "the value in row " + row + " is longer than " + Mapping.LONGEST + " bytes");
    }
    return end;
  }
}
