package bsjoin.jvm.storage;

import java.util.concurrent.atomic.AtomicReferenceArray;
import org.apache.spark.sql.catalyst.expressions.XXH64;
import org.apache.spark.sql.types.DataType;
import org.apache.spark.unsafe.types.UTF8String;

/**
 * An open segment: its hash index, and its columns, which are opened when they are first read.
 *
 * <p>The index is that of {@code bsjoin/index/hash.py}: the rows' hashes in order with a sentinel
 * behind them, a directory of first rows by the leading bits of the hash, and the lengths of runs of
 * equal keys. It is checked in one pass when it is opened, so that a damaged file is an error and not
 * a wrong answer; what is read from the directory and the runs is checked again before it is used, so
 * that not even a file that is changed later leads outside of it.
 *
 * <p>If integer keys are dense, the rows are in the order of the keys, which stand in the place of
 * the hashes, and the directory has an entry for each number.
 */
public final class Segment {
  public static final long SEED = 42; // of Spark's xxhash64

  private static final int HASH_BUFFERS = 16;

  private final Storage storage;
  private final Manifest manifest;
  final Manifest.Rows info;
  private final Mapping file;
  private final long hashes;
  private final long directory;
  private final long runs; // 0: every run has one row
  private final long base;
  private final int shift;
  private final long buckets;
  final int rows;
  final boolean isByKey;
  private final boolean isFull; // each number from the first to the last has one row
  final long lastHash; // the greatest one
  private final Column[] columns;
  private final AtomicReferenceArray<AggregateTree> trees; // of the columns
  private final Points points; // null for a table of equality joins
  private final Intervals intervals; // null for a table of points
  private final Ranks ranks; // null if range columns have codes
  public final Boxes boxes; // the rows by several ranges at once; null without

  Segment(Storage storage, Manifest manifest, Manifest.Rows info) {
    this.storage = storage;
    this.manifest = manifest;
    this.info = info;
    file = storage.map(info.file(-1));
    ArrowFile arrow = new ArrowFile(file);
    // Three lists (validity, offsets, validity of the values, values), then two numbers.
    file.check(arrow.rows == 1 && arrow.buffers() >= HASH_BUFFERS, "it is not an index");
    rows = info.rows;
    hashes = arrow.offset(3, 8L * (rows + 1));
    buckets = arrow.length(7) / 4 - 1;
    directory = arrow.offset(7, 8);
    runs = arrow.has(11) ? arrow.offset(11, 4L * rows) : 0;
    base = file.getLong(arrow.offset(13, 8));
    shift = file.getInt(arrow.offset(15, 4));
    isByKey = info.firstKey != null;
    long first = isByKey ? info.firstKey : info.firstHash;
    file.check(
        shift >= 0 && shift <= (isByKey ? 0 : 63)
            && file.getLong(hashes + 8L * rows) == Long.MAX_VALUE
            && file.getLong(hashes) == first
            && base == (first ^ Long.MIN_VALUE)
            && (runs == 0) == (info.longestRun == 1),
        "it does not agree with the manifest");
    lastHash = validate();
    isFull = isByKey && runs == 0 && buckets == rows;
    int rangeColumns = info.isGone ? 0 : manifest.rangeColumns;
    int lists = // where those of ranks begin
        HASH_BUFFERS + 8 * rangeColumns + (manifest.ordered ? 4 : 0);
    if (rangeColumns > 0) {
      checkRanges(arrow, lists + (manifest.isRanked() ? 12 : 0));
    }
    points = rangeColumns > 0 ? new Points(this, arrow) : null;
    intervals =
        rangeColumns > 1
            ? new Intervals(this, points, arrow, manifest.range.closed(), manifest.ordered)
            : null;
    ranks = rangeColumns > 0 && manifest.isRanked() ? new Ranks(arrow, lists) : null;
    if (ranks != null) {
      ranks.validate(points, intervals, rows);
    }
    boxes =
        info.boxes == null
            ? null
            : new Boxes(this, storage.map(info.boxes), manifest.dimensions.size());
    columns = new Column[manifest.compared.length + manifest.columns.length()];
    trees = new AtomicReferenceArray<>(columns.length);
  }

  /**
   * Check that the file has the arrays of the range index that the manifest says.
   *
   * @param text the first buffer of the ends that belong to intervals
   */
  private void checkRanges(ArrowFile arrow, int text) {
    file.check(
        arrow.buffers() == text + 3, "it has another range index than the manifest says");
    long begin = arrow.offset(text + 2, 0);
    long length = file.getInt(arrow.offset(text + 1, 8) + 4);
    // No more than is compared: a long text may leave the piece of the file that is mapped.
    long most = Math.min(arrow.length(text + 2), manifest.range.closed().length() + 1L);
    int size = (int) Math.max(0, Math.min(length, most));
    String closed = UTF8String.fromAddress(null, file.address(begin), size).toString();
    file.check(closed.equals(manifest.range.closed()), "closed is not that of the manifest");
  }

  /** The hash of an integer key: that of Spark's xxhash64. */
  static long hash(long key) {
    return XXH64.hashLong(key, SEED);
  }

  /**
   * Check all that a look-up relies on; O(rows), once per segment and process.
   *
   * @return the greatest hash
   */
  private long validate() {
    long first = file.getLong(hashes);
    long slots = (file.getLong(hashes + 8L * (rows - 1)) - first >>> shift) + 1;
    long least = Long.MAX_VALUE;
    long greatest = Long.MIN_VALUE;
    file.check(buckets == slots, "the directory has another length for rows: ", rows);
    long entry = 0;
    long before = Long.MIN_VALUE;
    int left = 1; // rows of the run, the one before included
    int longest = 1;
    for (int row = 0; row < rows; row++) {
      long hash = file.getLong(hashes + 8L * row);
      file.check(hash >= before, "the hashes fall at row ", row);
      boolean goesOn = left > 1; // of the run of the row before
      file.check(
          !isByKey || goesOn || row == 0 || hash != before,
          "the run of a key ends too early before row ",
          row);
      long hashed = isByKey ? hash(hash) : hash;
      least = Math.min(least, hashed);
      greatest = Math.max(greatest, hashed);
      long slot = hash - first >>> shift;
      file.check(slot >= 0 && slot < buckets, "the hashes fall behind row ", row);
      for (; entry <= slot; entry++) {
        file.check(file.getInt(directory + 4 * entry) == row, "the directory is wrong at row ", row);
      }
      if (runs != 0) {
        int length = file.getInt(runs + 4L * row);
        file.check(
            length >= 1 && (!goesOn || length == left - 1 && hash == before),
            "the run has a wrong length at row ",
            row);
        left = length;
        longest = Math.max(longest, length);
      }
      before = hash;
    }
    file.check(left == 1, "the run has a wrong length at row ", rows - 1);
    file.check(file.getInt(directory + 4 * entry) == rows, "the directory is wrong at row ", rows);
    file.check(longest == info.longestRun, "its longest run is not that of the manifest, but ", longest);
    file.check(least == info.firstHash, "the first hash is not that of the manifest for rows: ", rows);
    return greatest;
  }

  /** The first row whose hash this is, or if {@link #isByKey} whose key; -1 if there is none. */
  int find(long hash) {
    long bucket = bucket(hash);
    if (bucket < 0) {
      return -1;
    }
    return find(hash, bucket, isFull ? (int) bucket : checked(file.getInt(directory + 4 * bucket)));
  }

  // The same in steps, with one place of memory between two of them: see Version.find.

  /** The entry of the directory for a hash; -1 if no row has it. */
  long bucket(long hash) {
    long bucket = ((hash ^ Long.MIN_VALUE) - base) >>> shift;
    return bucket < buckets ? bucket : -1;
  }

  /** The address of an entry; 0 if there is nothing to read. */
  long entry(long bucket) {
    return isFull ? 0 : file.address(directory + 4 * bucket);
  }

  /** The row that an entry begins with, of what is at its address. */
  int begin(long bucket, int there) {
    return isFull ? (int) bucket : checked(there);
  }

  /** The address of what {@link #find(long, long, int)} reads first; 0 if there is nothing. */
  long first(int row) {
    return isByKey ? 0 : file.address(hashes + 8L * row);
  }

  /** The first row with a hash, from the row on that its entry begins with; -1 for none. */
  int find(long hash, long bucket, int begin) {
    int row = begin;
    if (isFull) {
      return row;
    }
    if (isByKey) {
      return row < file.getInt(directory + 4 * bucket + 4) && row < rows ? row : -1;
    }
    long there = file.getLong(hashes + 8L * row);
    while (there < hash) { // the sentinel ends it
      row = end(row);
      there = file.getLong(hashes + 8L * row);
    }
    return there == hash && row < rows ? row : -1;
  }

  /** The first row of the next run with the same hash; -1 if there is none. */
  int next(int row, long hash) {
    int after = end(row);
    return after < rows && file.getLong(hashes + 8L * after) == hash ? after : -1;
  }

  /** The address of where the run of a row ends; 0 if there is nothing to read. */
  long run(int row) {
    return runs == 0 ? 0 : file.address(runs + 4L * row);
  }

  /** How many rows have the key of a run's first row. */
  public int count(int row) {
    int found = end(row) - row;
    file.check(found <= info.longestRun, "a run is longer than the manifest says at row ", row);
    return found;
  }

  /** The points of the rows, which only a table for range joins has. */
  public Points points() {
    file.check(points != null, "it has no range index");
    return points;
  }

  /** The intervals of the rows, which only a table for them has. */
  public Intervals intervals() {
    file.check(intervals != null, "it has no intervals");
    return intervals;
  }

  /** The distinct values that ranks are of, which only a table with ranks has. */
  public Ranks ranks() {
    file.check(ranks != null, "it has no ranks");
    return ranks;
  }

  long hash(int row) {
    return isByKey ? hash(hashOrKey(row)) : hashOrKey(row);
  }

  long key(int row) {
    return isByKey ? hashOrKey(row) : IntegerHash.inverse(hashOrKey(row));
  }

  /** The same as {@link #hash(int)}, or if {@link #isByKey} the key. */
  private long hashOrKey(int row) {
    return file.getLong(hashes + 8L * row);
  }

  /** Whether a row has the key of a row of another segment, whose hash is the same. */
  boolean hasKeyOf(int row, Segment other, int at) {
    for (int i = 0; i < manifest.compared.length; i++) {
      Object key = other.column(i).value(at);
      if (!(key instanceof Long ? key.equals(column(i).value(row)) : column(i).is(row, key))) {
        return false;
      }
    }
    return true;
  }

  /** One past the last row that has the key of a row. */
  public int end(int row) {
    if (runs == 0) {
      return row + 1;
    }
    int length = file.getInt(runs + 4L * row);
    file.check(length >= 1, "the run is empty at row ", row);
    return checked(row + length);
  }

  private int checked(int row) {
    file.check(row >= 0 && row <= rows, "outside of it is row ", row);
    return row;
  }

  /** Open the columns that a segment with the same columns has open. */
  void openColumnsOf(Segment other) {
    for (int i = 0; i < columns.length; i++) {
      if (other.columns[i] != null) {
        column(i);
      }
    }
  }

  /** A column, by its number among the stored ones. */
  public Column column(int number) {
    Column column = columns[number];
    if (column == null) {
      DataType type = manifest.storedType(number);
      column =
          number == manifest.pointColumn
              ? points.column(type) // a search has just read what is next to it
              : Column.of(storage.map(info.file(number)), rows, type, manifest.isNullable(number));
      columns[number] = column; // twice opened by two threads is twice the same
    }
    return column;
  }

  /** What aggregates a column, by its number among the stored ones. */
  public AggregateTree tree(int number) {
    AggregateTree tree = trees.get(number); // without a lock: it is asked for each row
    if (tree == null) {
      trees.compareAndSet(number, null, new AggregateTree(column(number), rows));
      tree = trees.get(number);
    }
    return tree;
  }
}
