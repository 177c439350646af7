package bsjoin.jvm;

import org.apache.spark.unsafe.Platform;

/**
 * Reads a column in many rows before they are used, so that they are in the CPU's caches then.
 *
 * <p>Addresses first, then what is there: the shorter a loop, the more of its reads a CPU waits for at
 * once.
 */
final class ReadAhead {
  private final Columns columns;
  private final int number;
  private final long[] addresses = new long[KeysAhead.SIZE];

  ReadAhead(Columns columns, int number) {
    this.columns = columns.open();
    this.number = number;
  }

  /** Read it in the rows of references; what is returned says nothing. */
  long read(long[] references, int count) {
    int size = 0;
    boolean isText = false;
    for (int i = 0; i < count; i++) {
      Column column = columns.column(number, references[i]);
      if (column != null) {
        addresses[size++] = column.near(Columns.row(references[i]));
        isText = column.hasOffsets();
      }
    }
    long sum = touch(size);
    if (isText) {
      size = 0;
      for (int i = 0; i < count; i++) {
        Column column = columns.column(number, references[i]);
        if (column != null) {
          addresses[size++] = column.far(Columns.row(references[i]));
        }
      }
      sum += touch(size);
    }
    return sum;
  }

  private long touch(int size) {
    long sum = 0;
    for (int i = 0; i < size; i++) {
      sum += Platform.getByte(null, addresses[i]);
    }
    return sum;
  }
}
