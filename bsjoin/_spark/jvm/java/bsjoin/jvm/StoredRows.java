package bsjoin.jvm;

import java.io.Serializable;
import java.util.ArrayList;
import java.util.Collections;
import java.util.List;
import java.util.Map;
import java.util.concurrent.ConcurrentHashMap;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.connector.read.InputPartition;
import org.apache.spark.sql.connector.read.PartitionReader;
import org.apache.spark.sql.connector.read.PartitionReaderFactory;
import org.apache.spark.sql.types.DataType;
import org.apache.spark.sql.vectorized.ColumnarBatch;

/**
 * Reads the rows of a scan in the tasks: the files of the columns are mapped, and read in place.
 *
 * <p>A task gets the names, sizes and checksums of its files from the driver, so that all tasks read
 * the version that was planned, even if another table is built at its path meanwhile.
 */
final class StoredRows implements PartitionReaderFactory {
  private static final int ROWS = 1 << 12; // of a batch
  private static final Map<String, Integer> KEPT = new ConcurrentHashMap<>(); // versions of URLs

  private final String path;
  private final ArrayList<String> python;
  private final int version;
  private final DataType[] types;

  /**
   * A reader of some columns.
   *
   * @param path of the table
   * @param python the commands of Python to try, for a URL
   * @param version its number
   * @param types of the columns
   */
  StoredRows(String path, List<String> python, int version, DataType[] types) {
    this.path = path;
    this.python = new ArrayList<>(python);
    this.version = version;
    this.types = types;
  }

  /** A file of a column. */
  static final class File implements Serializable {
    final String name;
    final long size;
    final String checksum;
    final boolean nullable;

    File(Manifest.Rows segment, int number, boolean nullable) {
      name = segment.file(number);
      size = segment.sizes[number];
      checksum = segment.checksums[number];
      this.nullable = nullable;
    }
  }

  /** Rows of one segment that follow each other. */
  static final class Part implements InputPartition {
    final File[] files; // of the columns; null for one whose values are all null
    final int rows; // of the segment
    final int from;
    final int to;

    Part(File[] files, int rows, int from, int to) {
      this.files = files;
      this.rows = rows;
      this.from = from;
      this.to = to;
    }
  }

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
    Storage storage = Storage.of(path, python);
    if (storage.isRemote()) {
      removeOldCopies(storage);
    }
    StoredVector[] vectors = new StoredVector[types.length];
    for (int i = 0; i < types.length; i++) {
      vectors[i] = new StoredVector(types[i], column(storage, part, i));
    }
    return new PartitionReader<ColumnarBatch>() {
      private final ColumnarBatch batch = new ColumnarBatch(vectors);
      private int next = part.from;

      @Override
      public boolean next() {
        int count = Math.min(ROWS, part.to - next);
        for (StoredVector vector : vectors) {
          vector.show(next, count);
        }
        batch.setNumRows(count);
        next += count;
        return count > 0;
      }

      @Override
      public ColumnarBatch get() {
        return batch;
      }

      @Override
      public void close() {}
    };
  }

  /** Remove the copies of all but the two newest versions, when a newer one is first scanned. */
  private void removeOldCopies(Storage storage) {
    Integer before = KEPT.put(path, version);
    if (before != null && before < version) {
      storage.keep(Collections.emptyList());
    }
  }

  private Column column(Storage storage, Part part, int number) {
    File file = part.files[number];
    if (file == null) {
      return null;
    }
    Mapping mapped = storage.map(file.name, file.size, file.checksum);
    ColumnType type = ColumnType.of(types[number]);
    return new Column(new ArrowFile(mapped), part.rows, type, file.nullable);
  }
}
