package bsjoin.jvm.storage;

import org.apache.spark.sql.types.DataType;

/**
 * The points of a segment's rows, ascending inside each key, with a directory: {@code SortedRows} of
 * {@code bsjoin/index/sorted_rows.py}.
 *
 * <p>A point is a code of 64 bits, see {@link Code}. The {@code s} rows of a key have {@code s}
 * buckets of equal width, and the directory has the first row of each. A search reads its bucket's
 * entry and descends the skip list of deterministic levels that the rows of the bucket are. Both
 * arrays are checked in one pass when the segment is opened; entries are checked again when they are
 * used.
 */
public final class Points {
  private static final int VALUES = 19; // buffers of the index's file
  private static final int DIRECTORY = 23;
  private static final int FEW = 16; // rows whose points are no further away than the directory

  private final Mapping file;
  private final long values;
  private final long directory;
  private final int rows;
  private long leastOfAll = Long.MAX_VALUE;
  private long greatestOfAll = Long.MIN_VALUE;

  Points(Segment segment, ArrowFile arrow) {
    file = arrow.file;
    rows = segment.rows;
    file.check(
        arrow.length(VALUES) == 8L * rows && arrow.length(DIRECTORY) == 4L * (rows + 1L),
        "it has other points than rows: ",
        rows);
    values = arrow.offset(VALUES, 8L * rows);
    directory = arrow.offset(DIRECTORY, 4L * (rows + 1L));
    validate(segment);
  }

  private void validate(Segment segment) {
    file.check(file.getInt(directory) == 0, "the point directory is wrong at row ", 0);
    file.check(file.getInt(directory + 4L * rows) == rows, "the point directory is wrong at row ", rows);
    for (int row = 0; row < rows; row++) {
      file.check(
          file.getInt(directory + 4L * row) <= file.getInt(directory + 4L * row + 4),
          "the point directory falls behind entry ",
          row);
    }
    for (int low = 0, high; low < rows; low = high) {
      high = segment.end(low);
      long least = value(low);
      double scale = scale(least, value(high - 1), high - low);
      long before = least;
      for (int row = low; row < high; row++) {
        long value = value(row);
        file.check(value >= before, "the points of a key fall at row ", row);
        long slot = directory + 4L * (low + bucket(value, least, scale, high - low));
        file.check(
            file.getInt(slot) <= row && row < file.getInt(slot + 4),
            "the point directory does not lead to row ",
            row);
        before = value;
      }
      leastOfAll = Math.min(leastOfAll, least);
      greatestOfAll = Math.max(greatestOfAll, before);
    }
  }

  public long least() {
    return leastOfAll;
  }

  public long greatest() {
    return greatestOfAll;
  }

  /** The points as a column, if they are the values of one. */
  Column column(DataType type) {
    return Column.within(file, rows, type, values);
  }

  public long value(int row) {
    return file.getLong(values + 8L * row);
  }

  /** The first row of a key whose point is not below a code; {@code high} if there is none. */
  public int notBelow(long code, int low, int high) {
    return notBelow(code, slot(code, low, high), low, high);
  }

  // The same in steps, with one place of memory between two of them: see Version.search.

  /** The entry of the directory that leads to a code; -1 if the search reads none. */
  int slot(long code, int low, int high) {
    if (high - low <= FEW) {
      return -1;
    }
    long least = value(low);
    long greatest = value(high - 1);
    return code <= least || code > greatest
        ? -1
        : low + bucket(code, least, scale(least, greatest, high - low), high - low);
  }

  long entry(int slot) {
    return file.address(directory + 4L * slot);
  }

  /** The address of the point that the search reads first from an entry on. */
  long first(int slot, int low, int high) {
    int first = entry(slot, low, high);
    int size = entry(slot + 1, first, high) - first;
    return address(first + Math.max(0, Integer.highestOneBit(size) - 1));
  }

  /** The address of a row's point; of the last one behind all rows. */
  long address(int row) {
    return file.address(values + 8L * Math.min(row, rows - 1));
  }

  /** {@link #notBelow(long, int, int)} by the entry, if there is one. */
  int notBelow(long code, int slot, int low, int high) {
    if (slot >= 0) {
      int first = entry(slot, low, high);
      return descend(code, first, entry(slot + 1, first, high));
    }
    return high - low <= FEW ? descend(code, low, high) : code <= value(low) ? low : high;
  }

  /** The first row of a key whose point is above a code; {@code high} if there is none. */
  public int above(long code, int low, int high) {
    return code == Long.MAX_VALUE ? high : notBelow(code + 1, low, high);
  }

  /**
   * The same from a row of the key on, fast if the one that is looked for is near: it climbs the
   * levels of the skip list before it descends. What is further away the directory finds.
   */
  public int aboveFrom(long code, int row, int low, int high) {
    if (code == Long.MAX_VALUE) {
      return high;
    }
    int passed = row;
    for (int step = 1; step <= FEW && step <= high - passed; step <<= 1) {
      int ahead = passed + step - 1;
      if (value(ahead) > code) {
        return descend(code + 1, passed, ahead);
      }
      passed = ahead + 1;
    }
    if (high - passed > FEW) {
      return Math.max(passed, notBelow(code + 1, low, high));
    }
    return descend(code + 1, passed, high);
  }

  /** The first row of a key with the point of a row; -1 if that is before the key's first one. */
  public int firstOfEquals(int row, int low, int high) {
    if (row < low) {
      return -1;
    }
    long value = value(row);
    return row == low || value(row - 1) != value ? row : notBelow(value, low, high);
  }

  /** The first row from {@code first} on that is not below a code; {@code stop} if all are. */
  private int descend(long code, int first, int stop) {
    int passed = 0;
    int size = stop - first;
    for (int step = Integer.highestOneBit(size); step > 0; step >>>= 1) {
      int ahead = passed + step - 1;
      if (ahead < size && value(first + ahead) < code) {
        passed += step;
      }
    }
    return first + passed;
  }

  private int entry(int slot, int least, int most) {
    int row = file.getInt(directory + 4L * slot);
    file.check(row >= least && row <= most, "the point directory is wrong at entry ", slot);
    return row;
  }

  /** Buckets per unit of value; 0 if all values are equal. */
  private static double scale(long least, long greatest, int size) {
    return least == greatest ? 0 : (size - 1) / unsigned(greatest - least);
  }

  /** The bucket of a value; monotone in it, and rounded as the writer does. */
  private static int bucket(long value, long least, double scale, int size) {
    return (int) Math.min((long) (unsigned(value - least) * scale), size - 1L);
  }

  /** The double that is nearest to an unsigned number. */
  private static double unsigned(long number) {
    return number >= 0 ? number : 2.0 * (number >>> 1 | number & 1);
  }
}
