package bsjoin.jvm;

import java.nio.file.Path;
import org.apache.spark.sql.types.DataType;

/**
 * An open version of a table.
 *
 * <p>A row has one number across versions and segments, a <em>reference</em>: the slot of the version
 * in {@link Table}, the segment and the row in it. It fits a long, so that it passes through
 * generated code without an object.
 */
final class Version {
  static final int ROW_BITS = 31;
  static final int SEGMENT_BITS = 20;
  static final int SLOT_BITS = 11;
  static final long MISSING = -1;

  private static final long ROW_MASK = (1L << ROW_BITS) - 1;
  private static final int SEGMENT_MASK = (1 << SEGMENT_BITS) - 1;

  final Manifest manifest;
  private final Path table;
  private final long slot; // shifted to its place in a reference
  private final Segment[] segments;
  private final long[] firstHashes;
  private final DataType[] types;
  volatile long lastUsedNs = System.nanoTime();

  Version(Path table, Manifest manifest, int slot) {
    this.table = table;
    this.manifest = manifest;
    this.slot = (long) slot << (ROW_BITS + SEGMENT_BITS);
    if (manifest.segments.length > SEGMENT_MASK) {
      throw new DamagedTableException(table.toString(), "it has too many segments");
    }
    types = new DataType[manifest.compared.length + manifest.columns.length()];
    System.arraycopy(manifest.compared, 0, types, 0, manifest.compared.length);
    for (int i = manifest.compared.length; i < types.length; i++) {
      types[i] = manifest.columns.fields()[i - manifest.compared.length].dataType();
    }
    segments = new Segment[manifest.segments.length];
    firstHashes = new long[segments.length];
    for (int i = 0; i < segments.length; i++) {
      firstHashes[i] = manifest.segments[i].firstHash;
      segments[i] = new Segment(this, manifest.segments[i]);
    }
  }

  /** Map one of the files. */
  Mapping map(String file, long size) {
    return Mapping.of(table.resolve(file).toString(), size);
  }

  /** How a stored column is stored. */
  ColumnType type(int number) {
    ColumnType type = ColumnType.of(types[number]);
    if (type == null) {
      throw new IllegalStateException("the JVM does not read columns of " + types[number]);
    }
    return type;
  }

  /** The reference of the first row with a hash; {@link #MISSING} if there is none. */
  long find(long hash) {
    int number = segments.length == 1 ? 0 : segmentOf(hash);
    if (number < 0) {
      return MISSING;
    }
    int row = segments[number].find(hash);
    return row < 0 ? MISSING : slot | (long) number << ROW_BITS | row;
  }

  /** The reference of the next run's first row with the same hash; {@link #MISSING} if none. */
  long next(long reference, long hash) {
    int row = segment(reference).next(row(reference), hash);
    return row < 0 ? MISSING : reference & ~ROW_MASK | row;
  }

  /** Whether a reference is to a row of this version. */
  boolean holds(long reference) {
    return reference >>> (ROW_BITS + SEGMENT_BITS) == slot >>> (ROW_BITS + SEGMENT_BITS);
  }

  Segment segment(long reference) {
    return segments[(int) (reference >>> ROW_BITS) & SEGMENT_MASK];
  }

  static int row(long reference) {
    return (int) (reference & ROW_MASK);
  }

  static int slot(long reference) {
    return (int) (reference >>> (ROW_BITS + SEGMENT_BITS));
  }

  /** The last segment that begins at or before a hash; -1 if all begin after it. */
  private int segmentOf(long hash) {
    int low = 0;
    int high = firstHashes.length;
    while (low < high) {
      int middle = (low + high) >>> 1;
      if (firstHashes[middle] <= hash) {
        low = middle + 1;
      } else {
        high = middle;
      }
    }
    return low - 1;
  }
}
