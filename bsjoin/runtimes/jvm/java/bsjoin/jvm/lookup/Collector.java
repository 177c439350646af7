package bsjoin.jvm.lookup;

import bsjoin.jvm.storage.Column;
import bsjoin.jvm.storage.Version;
import java.io.Serializable;
import java.util.ArrayList;
import java.util.List;
import org.apache.spark.sql.catalyst.expressions.GenericInternalRow;
import org.apache.spark.sql.catalyst.util.ArrayData;
import org.apache.spark.sql.catalyst.util.GenericArrayData;
import org.apache.spark.sql.types.DataType;
import org.apache.spark.sql.types.DataTypes;
import org.apache.spark.sql.types.StructType;

/**
 * Puts all rows that a finder finds into one array of structs, in their order. It is empty without any.
 *
 * <p>Each iterator has one of its own, from {@link #open}. An array is valid as long as that is.
 */
public final class Collector implements Serializable {
  private static final ArrayData NONE = new GenericArrayData(new Object[0]);

  private final Columns columns;
  private final StructType row; // its fields are the columns, in their order

  public Collector(Columns columns, StructType row) {
    this.columns = columns;
    this.row = row;
  }

  public DataType type() {
    return DataTypes.createArrayType(row, false);
  }

  /** One for an iterator. */
  public Collector open() {
    return new Collector(columns.open(), row);
  }

  /** The array of a row of the stream, whose first match the finder has found; negative for none. */
  public ArrayData all(Finder finder, long first) {
    if (first < 0) {
      return NONE;
    }
    List<Object> rows = new ArrayList<>();
    for (long one = first; one >= 0; one = finder.isUnique() ? Finder.NONE : finder.next()) {
      rows.add(row(one));
    }
    return new GenericArrayData(rows.toArray());
  }

  private GenericInternalRow row(long reference) {
    Object[] values = new Object[row.length()];
    for (int i = 0; i < values.length; i++) {
      Column column = columns.column(i, reference);
      values[i] = column == null ? null : column.value(Version.row(reference));
    }
    return new GenericInternalRow(values);
  }

  @Override
  public boolean equals(Object other) {
    return other instanceof Collector that && columns.equals(that.columns) && row.equals(that.row);
  }

  @Override
  public int hashCode() {
    return columns.hashCode() + 31 * row.hashCode();
  }
}
