package bsjoin.jvm.storage;

import java.math.BigDecimal;
import java.math.BigInteger;
import java.util.stream.IntStream;
import org.apache.spark.sql.types.DataType;
import org.apache.spark.sql.types.Decimal;
import org.apache.spark.sql.types.FloatType;
import org.apache.spark.sql.vectorized.ColumnVector;
import org.apache.spark.sql.vectorized.ColumnarArray;
import org.apache.spark.sql.vectorized.ColumnarMap;
import org.apache.spark.unsafe.Platform;
import org.apache.spark.unsafe.array.ByteArrayMethods;
import org.apache.spark.unsafe.types.UTF8String;

/**
 * A column of one segment, in place: a bitmap of what is not null, and values of fixed or variable
 * width.
 *
 * <p>The rows that a caller gives are those that {@link Segment#find} has returned, or those of a
 * scan. The buffers were checked to hold that many rows when the column was opened; the offsets of a
 * text are checked with every read, which costs less than a pass over all of them.
 */
public final class Column extends ColumnVector {
  private final Mapping file;
  private final int rows;
  private final long valid; // 0: there are no nulls
  private final long offsets; // 0: the values have one width
  private final long data;
  private final long dataLength;
  private final int width; // see ColumnType

  private Column(
      DataType type, Mapping file, int rows, long valid, long offsets, long data, long dataLength,
      int width) {
    super(type);
    this.file = file;
    this.rows = rows;
    this.valid = valid;
    this.offsets = offsets;
    this.data = data;
    this.dataLength = dataLength;
    this.width = width;
  }

  public static Column of(Mapping file, int rows, DataType type, boolean nullable) {
    ArrowFile arrow = new ArrowFile(file);
    ColumnType stored = ColumnType.of(type);
    file.check(
        stored != null && arrow.types.length == 1 && arrow.types[0] == stored.arrow()
            && arrow.rows == rows,
        "it does not hold one column of " + rows + " rows of " + type.simpleString());
    int width = stored.width();
    file.check(
        arrow.buffers() == (width == 0 ? 3 : 2), "its column has another number of buffers");
    file.check(nullable || !arrow.has(0), "it has nulls, which the table's schema refuses");
    long valid = arrow.has(0) ? arrow.offset(0, (rows + 7L) / 8) : 0;
    long offsets = width == 0 ? arrow.offset(1, 4L * (rows + 1)) : 0;
    long length = width < 0 ? (rows + 7L) / 8 : width == 0 ? arrow.length(2) : (long) width * rows;
    long data = arrow.offset(width == 0 ? 2 : 1, width == 0 ? 0 : length);
    return new Column(type, file, rows, valid, offsets, data, length, width);
  }

  /** A column without nulls that is a part of another file, where its values of 8 bytes begin. */
  static Column within(Mapping file, int rows, DataType type, long data) {
    return new Column(type, file, rows, 0, 0, data, 8L * rows, 8);
  }

  /** Some rows from one on, whose number is a multiple of 8: bits begin with a byte. */
  public Column from(int row, int count) {
    long begin = width < 0 ? row / 8 : (long) width * row;
    return new Column(
        type, file, count, valid == 0 ? 0 : valid + row / 8,
        offsets == 0 ? 0 : offsets + 4L * row, data + begin, dataLength - begin, width);
  }

  /** The address of a row's value, or of its offset: see {@link bsjoin.jvm.lookup.ReadAhead}. */
  public long near(int row) {
    return file.address(offsets == 0 ? data + (long) Math.max(0, width) * row : offsets + 4L * row);
  }

  public boolean hasOffsets() {
    return offsets != 0;
  }

  /** The address of a row's text; of something else if the text is not in the file. */
  public long far(int row) {
    long begin = begin(row);
    return begin >= 0 && begin < dataLength ? file.address(data + begin) : near(row);
  }

  @Override
  public void close() {}

  @Override
  public boolean hasNull() {
    return valid != 0;
  }

  @Override
  public int numNulls() {
    return hasNull() ? (int) IntStream.range(0, rows).filter(this::isNullAt).count() : 0;
  }

  @Override
  public boolean isNullAt(int row) {
    return valid != 0 && (file.getByte(valid + (row >>> 3)) >> (row & 7) & 1) == 0;
  }

  @Override
  public boolean getBoolean(int row) {
    return (file.getByte(data + (row >>> 3)) >> (row & 7) & 1) != 0;
  }

  @Override
  public byte getByte(int row) {
    return file.getByte(data + row);
  }

  @Override
  public short getShort(int row) {
    return Platform.getShort(null, file.address(data + 2L * row));
  }

  @Override
  public int getInt(int row) {
    return file.getInt(data + 4L * row);
  }

  @Override
  public long getLong(int row) {
    return file.getLong(data + 8L * row);
  }

  @Override
  public float getFloat(int row) {
    return Platform.getFloat(null, file.address(data + 4L * row));
  }

  @Override
  public double getDouble(int row) {
    return Platform.getDouble(null, file.address(data + 8L * row));
  }

  /**
   * The values of some rows: numbers, dates and times as longs, of decimals of up to 18 digits their
   * digits, of floating-point numbers the bits of doubles. Those of nulls are any.
   *
   * @param first the first row; they are in one piece of the file if they have up to 2^29 bytes
   * @param place the place of its value; the others are behind it
   */
  void numbers(int first, int count, long[] found, int place) {
    if (count == 0) {
      return;
    }
    long at = file.address(data + (long) width * first);
    switch (width) {
      case 8, 16 -> {
        for (int i = 0; i < count; i++) { // of 16 bytes the lower half comes first
          found[place + i] = Platform.getLong(null, at + (long) width * i);
        }
      }
      case 4 -> {
        boolean floating = type instanceof FloatType;
        for (int i = 0; i < count; i++) {
          found[place + i] =
              floating
                  ? Double.doubleToRawLongBits(Platform.getFloat(null, at + 4L * i))
                  : Platform.getInt(null, at + 4L * i);
        }
      }
      default -> {
        for (int i = 0; i < count; i++) {
          found[place + i] = width == 2 ? getShort(first + i) : getByte(first + i);
        }
      }
    }
  }

  int countOf(int first, int stop) {
    int count = 0;
    for (int row = first; row < stop; row++) {
      count += isNullAt(row) ? 0 : 1;
    }
    return count;
  }

  /** A decimal, which Arrow stores in 16 bytes, two's complement, the lowest byte first. */
  @Override
  public Decimal getDecimal(int row, int precision, int scale) {
    if (isNullAt(row)) {
      return null;
    }
    long at = file.address(data + 16L * row);
    long low = Platform.getLong(null, at);
    long high = Platform.getLong(null, at + 8);
    if (precision <= Decimal.MAX_LONG_DIGITS()) {
      long end = Decimal.POW_10()[precision];
      if (high != low >> 63 || low >= end || low <= -end) {
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

  private IllegalStateException tooManyDigits(int row, int precision) {
    return TableError.damaged(
        file.name, "the number in row " + row + " has more than " + precision + " digits");
  }

  /** A text, in place: valid for as long as the version is open. */
  @Override
  public UTF8String getUTF8String(int row) {
    if (isNullAt(row)) {
      return null;
    }
    long begin = begin(row);
    int length = length(row, begin); // which checks both
    return UTF8String.fromAddress(null, file.address(data + begin), length);
  }

  @Override
  public byte[] getBinary(int row) {
    if (isNullAt(row)) {
      return null;
    }
    long begin = begin(row);
    byte[] found = new byte[length(row, begin)];
    Platform.copyMemory(
        null, file.address(data + begin), found, Platform.BYTE_ARRAY_OFFSET, found.length);
    return found;
  }

  /** The value of a row as Spark has it; null for none. */
  public Object value(int row) {
    return isNullAt(row) ? null : new ColumnarArray(this, row, 1).get(0, type);
  }

  /** Whether a stored key is a value that is no long. */
  public boolean is(int row, Object key) {
    if (key instanceof UTF8String text) {
      return equals(row, text.getBaseObject(), text.getBaseOffset(), text.numBytes());
    }
    return key instanceof byte[] bytes
        ? equals(row, bytes, Platform.BYTE_ARRAY_OFFSET, bytes.length)
        : value(row).equals(key);
  }

  private boolean equals(int row, Object base, long offset, int size) {
    long begin = begin(row);
    return length(row, begin) == size
        && ByteArrayMethods.arrayEquals(base, offset, null, file.address(data + begin), size);
  }

  private long begin(int row) {
    return file.getInt(offsets + 4L * row);
  }

  private int length(int row, long begin) {
    long end = file.getInt(offsets + 4L * row + 4);
    if (begin < 0 || end < begin || end > dataLength) {
      throw TableError.damaged(file.name, "the offsets of row " + row + " are not in order");
    }
    if (end - begin > Mapping.LONGEST) {
      throw TableError.damaged(
          file.name, "the value in row " + row + " is longer than " + Mapping.LONGEST + " bytes");
    }
    return (int) (end - begin);
  }

  @Override
  public ColumnarArray getArray(int row) {
    throw new UnsupportedOperationException();
  }

  @Override
  public ColumnarMap getMap(int row) {
    throw new UnsupportedOperationException();
  }

  @Override
  public ColumnVector getChild(int ordinal) {
    throw new UnsupportedOperationException();
  }
}
