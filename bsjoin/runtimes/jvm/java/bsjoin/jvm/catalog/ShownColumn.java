package bsjoin.jvm.catalog;

import bsjoin.jvm.storage.Column;
import java.util.Arrays;
import java.util.BitSet;
import java.util.stream.IntStream;
import org.apache.spark.sql.types.Decimal;
import org.apache.spark.sql.vectorized.ColumnVector;
import org.apache.spark.sql.vectorized.ColumnarArray;
import org.apache.spark.sql.vectorized.ColumnarMap;
import org.apache.spark.unsafe.types.UTF8String;

/** Some rows of a column: those that no layer above their segment has replaced. */
final class ShownColumn extends ColumnVector {
  private final Column column;
  private final int[] rows;

  ShownColumn(Column column, int[] rows) {
    super(column.dataType());
    this.column = column;
    this.rows = rows;
  }

  /** The rows from one to before another that are not hidden; null if none of them is. */
  static int[] rows(BitSet hidden, int begin, int end) {
    int next = hidden.nextSetBit(begin);
    return next < 0 || next >= end
        ? null
        : IntStream.range(begin, end).filter(row -> !hidden.get(row)).toArray();
  }

  @Override
  public void close() {}

  @Override
  public boolean hasNull() {
    return column.hasNull();
  }

  @Override
  public int numNulls() {
    return (int) Arrays.stream(rows).filter(column::isNullAt).count();
  }

  @Override
  public boolean isNullAt(int row) {
    return column.isNullAt(rows[row]);
  }

  @Override
  public boolean getBoolean(int row) {
    return column.getBoolean(rows[row]);
  }

  @Override
  public byte getByte(int row) {
    return column.getByte(rows[row]);
  }

  @Override
  public short getShort(int row) {
    return column.getShort(rows[row]);
  }

  @Override
  public int getInt(int row) {
    return column.getInt(rows[row]);
  }

  @Override
  public long getLong(int row) {
    return column.getLong(rows[row]);
  }

  @Override
  public float getFloat(int row) {
    return column.getFloat(rows[row]);
  }

  @Override
  public double getDouble(int row) {
    return column.getDouble(rows[row]);
  }

  @Override
  public Decimal getDecimal(int row, int precision, int scale) {
    return column.getDecimal(rows[row], precision, scale);
  }

  @Override
  public UTF8String getUTF8String(int row) {
    return column.getUTF8String(rows[row]);
  }

  @Override
  public byte[] getBinary(int row) {
    return column.getBinary(rows[row]);
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
