package bsjoin.jvm.lookup;

import bsjoin.jvm.storage.Column;
import bsjoin.jvm.storage.Version;
import org.apache.spark.unsafe.Platform;

/**
 * Reads a column in many rows before they are used, so that they are in the CPU's caches then.
 *
 * <p>Addresses first, then what is there: the shorter a loop, the more of its reads a CPU waits for at
 * once.
 */
public final class ReadAhead {
  private final Columns columns; // null: it is one of those that keys are compared with
  private final int number;
  private final long[] addresses = new long[KeysAhead.SIZE];

  ReadAhead(Columns columns, int number) {
    this.columns = columns;
    this.number = number;
  }

  private Column column(Version version, long reference) {
    if (columns != null) {
      return columns.column(number, reference);
    }
    return reference < 0 ? null : version.segment(reference).column(number);
  }

  /** Read it in the rows of references of a version; what is returned says nothing. */
  long read(Version version, long[] references, int count) {
    int size = 0;
    boolean isText = false;
    for (int i = 0; i < count; i++) {
      Column column = column(version, references[i]);
      if (column != null) {
        addresses[size++] = column.near(Version.row(references[i]));
        isText = column.hasOffsets();
      }
    }
    long sum = touch(size);
    if (isText) {
      size = 0;
      for (int i = 0; i < count; i++) {
        Column column = column(version, references[i]);
        if (column != null) {
          addresses[size++] = column.far(Version.row(references[i]));
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
