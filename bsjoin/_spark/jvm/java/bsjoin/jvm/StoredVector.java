package bsjoin.jvm;

import org.apache.spark.sql.types.DataType;
import org.apache.spark.sql.types.Decimal;
import org.apache.spark.sql.vectorized.ColumnVector;
import org.apache.spark.sql.vectorized.ColumnarArray;
import org.apache.spark.sql.vectorized.ColumnarMap;
import org.apache.spark.unsafe.types.UTF8String;

/** Some rows of a stored column, in place: their values are valid while this object is. */
final class StoredVector extends ColumnVector {
  private final Column column; // null: all values are
  private int first;
  private int count;

  StoredVector(DataType type, Column column) {
    super(type);
    this.column = column;
  }

  /** Let it be other rows of the column. */
  void show(int first, int count) {
    this.first = first;
    this.count = count;
  }

  @Override
  public void close() {}

  @Override
  public boolean hasNull() {
    return column == null || column.hasNulls();
  }

  @Override
  public int numNulls() {
    int found = 0;
    for (int row = 0; row < count && hasNull(); row++) {
      found += isNullAt(row) ? 1 : 0;
    }
    return found;
  }

  @Override
  public boolean isNullAt(int row) {
    return column == null || column.isNull(first + row);
  }

  @Override
  public boolean getBoolean(int row) {
    return column.getBoolean(first + row);
  }

  @Override
  public byte getByte(int row) {
    return column.getByte(first + row);
  }

  @Override
  public short getShort(int row) {
    return column.getShort(first + row);
  }

  @Override
  public int getInt(int row) {
    return column.getInt(first + row);
  }

  @Override
  public long getLong(int row) {
    return column.getLong(first + row);
  }

  @Override
  public float getFloat(int row) {
    return column.getFloat(first + row);
  }

  @Override
  public double getDouble(int row) {
    return column.getDouble(first + row);
  }

  @Override
  public Decimal getDecimal(int row, int precision, int scale) {
    return isNullAt(row) ? null : column.getDecimal(first + row, precision, scale);
  }

  @Override
  public UTF8String getUTF8String(int row) {
    return isNullAt(row) ? null : column.getText(first + row);
  }

  @Override
  public byte[] getBinary(int row) {
    return isNullAt(row) ? null : column.getBinary(first + row);
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
