package bsjoin.jvm.catalog;

import bsjoin.jvm.storage.Column;
import bsjoin.jvm.storage.Storage;
import bsjoin.jvm.storage.StoredFile;
import bsjoin.jvm.storage.StoredVersion;
import bsjoin.jvm.storage.TableIdentity;
import java.io.Serializable;
import java.util.BitSet;
import java.util.List;
import java.util.Map;
import java.util.concurrent.ConcurrentHashMap;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.connector.read.InputPartition;
import org.apache.spark.sql.connector.read.PartitionReader;
import org.apache.spark.sql.connector.read.PartitionReaderFactory;
import org.apache.spark.sql.execution.vectorized.ConstantColumnVector;
import org.apache.spark.sql.types.DataType;
import org.apache.spark.sql.vectorized.ColumnVector;
import org.apache.spark.sql.vectorized.ColumnarBatch;

/**
 * Reads the rows of a scan in the tasks: the files of the columns are mapped, and read in place.
 *
 * <p>A task gets the names, sizes and checksums of its files from the driver, so that all tasks read
 * the version that was planned, even if another table is built at its path meanwhile. Of a version
 * with layers a task also opens the indexes, which say which rows layers have replaced.
 *
 * @param version that is read
 * @param hasLayers whether it has
 * @param types of the columns
 */
public record StoredRows(StoredVersion version, boolean hasLayers, DataType[] types)
    implements PartitionReaderFactory {
  private static final int ROWS = 1 << 12; // of a batch
  private static final Map<String, Integer> KEPT = new ConcurrentHashMap<>(); // versions of URLs

  record ColumnFile(StoredFile file, boolean nullable) implements Serializable {}

  /**
   * Rows of one segment that follow each other.
   *
   * @param files of the columns; null for one whose values are all null
   * @param rows of the segment
   * @param from the first row, a multiple of 8
   * @param to one past the last row
   * @param number of the segment; -1 for rows that match nothing, which no layer replaces
   */
  record Part(ColumnFile[] files, int rows, int from, int to, int number)
      implements InputPartition {}

  @Override
  public boolean supportColumnarReads(InputPartition partition) {
    return true;
  }

  @Override
  public PartitionReader<InternalRow> createReader(InputPartition partition) {
    throw new UnsupportedOperationException("the columns of bsjoin's tables are read in batches");
  }

  @Override
  public PartitionReader<ColumnarBatch> createColumnarReader(InputPartition partition) {
    Part part = (Part) partition;
    TableIdentity table = version.identity;
    Storage storage = Storage.of(table.path(), table.python());
    if (storage.isRemote()) {
      removeOldCopies(table.path(), storage);
    }
    ColumnVector[] columns = new ColumnVector[types.length];
    for (int i = 0; i < types.length; i++) {
      columns[i] = column(storage, part, i);
    }
    BitSet hidden = hasLayers && part.number >= 0 ? version.open().hidden(part.number) : null;
    return new PartitionReader<>() {
      private int begin;
      private int end = part.from;

      @Override
      public boolean next() {
        do {
          begin = end;
          end = Math.min(begin + ROWS, part.to);
        } while (hidden != null && begin < end && hidden.nextClearBit(begin) >= end);
        return begin < end;
      }

      @Override
      public ColumnarBatch get() {
        ColumnVector[] shown = columns.clone();
        int[] rows = hidden == null ? null : ShownColumn.rows(hidden, begin, end);
        int count = rows == null ? end - begin : rows.length;
        for (int i = 0; i < shown.length; i++) {
          if (columns[i] instanceof Column column) {
            shown[i] = rows == null ? column.from(begin, count) : new ShownColumn(column, rows);
          }
        }
        return new ColumnarBatch(shown, count);
      }

      @Override
      public void close() {}
    };
  }

  /** Remove the copies of all but the two newest versions, when a newer one is first scanned. */
  private void removeOldCopies(String path, Storage storage) {
    Integer before = KEPT.put(path, version.number);
    if (before != null && before < version.number) {
      storage.keep(List.of());
    }
  }

  private ColumnVector column(Storage storage, Part part, int number) {
    ColumnFile stored = part.files[number];
    if (stored == null) {
      ConstantColumnVector nulls = new ConstantColumnVector(ROWS, types[number]);
      nulls.setNull();
      return nulls;
    }
    return Column.of(storage.map(stored.file), part.rows, types[number], stored.nullable);
  }
}
