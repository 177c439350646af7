package bsjoin.jvm;

import org.apache.spark.sql.catalyst.util.ArrayData;
import org.apache.spark.sql.catalyst.util.GenericArrayData;
import org.apache.spark.sql.types.DataType;
import org.apache.spark.sql.types.DataTypes;

/**
 * References of rows, as an array for {@code explode}, whose generated code asks for one after
 * another.
 */
abstract class References extends GenericArrayData {
  static final DataType TYPE = DataTypes.createArrayType(DataTypes.LongType, false);

  private final int size;

  References(int size) {
    super(new Object[0]);
    this.size = size;
  }

  /** References at equal distances: the array has none of them, whatever their number. */
  static References inSteps(long first, int step, int size) {
    return new InSteps(first, step, size);
  }

  /** The first references of an array, which the caller does not change any more. */
  static References of(long[] found, int size) {
    return new Listed(found, size);
  }

  @Override
  public final int numElements() {
    return size;
  }

  @Override
  public final boolean isNullAt(int ordinal) {
    return false;
  }

  @Override
  public final Object get(int ordinal, DataType type) {
    return getLong(ordinal);
  }

  @Override
  public final ArrayData copy() {
    return this;
  }

  @Override
  public final boolean equals(Object other) {
    if (!(other instanceof References) || ((References) other).size != size) {
      return false;
    }
    for (int i = 0; i < size; i++) {
      if (getLong(i) != ((References) other).getLong(i)) {
        return false;
      }
    }
    return true;
  }

  @Override
  public final int hashCode() {
    return size == 0 ? 0 : 31 * size + Long.hashCode(getLong(0));
  }

  @Override
  public final String toString() {
    return size + " references";
  }

  private static final class InSteps extends References {
    private final long first;
    private final int step;

    InSteps(long first, int step, int size) {
      super(size);
      this.first = first;
      this.step = step;
    }

    @Override
    public long getLong(int ordinal) {
      return first + (long) step * ordinal;
    }
  }

  private static final class Listed extends References {
    private final long[] found;

    Listed(long[] found, int size) {
      super(size);
      this.found = found;
    }

    @Override
    public long getLong(int ordinal) {
      return found[ordinal];
    }
  }
}
