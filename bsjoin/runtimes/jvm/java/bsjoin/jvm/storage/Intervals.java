package bsjoin.jvm.storage;

/**
 * The last points of a segment's intervals, in a tree of the maxima of 8 rows, of 64, and so on:
 * {@code bsjoin/index/range_max_tree.py}, and the empty intervals of {@code
 * bsjoin/index/intervals.py}.
 *
 * <p>The children of node {@code j} of a level are the nodes {@code 8 j} to {@code 8 j + 7} of the
 * level below, one cache line; the lowest level has the rows. All of it is checked in one pass when
 * the segment is opened.
 */
public final class Intervals {
  private static final int TREE = 27; // buffers of the index's file
  private static final int EMPTY = 31;
  private static final int PLACES = 35; // of tables that are built for it
  private static final int BITS = Boxes.BITS;
  private static final int FAN = 1 << BITS;

  private final Mapping file;
  private final int rows;
  private final long[] levels; // where each begins, and where the last one ends
  private final long empty; // the rows whose interval is empty, ascending
  private final int empties;
  private final long places; // of rows in the order of their key; 0 for none
  private final boolean isClosed; // ends belong to the intervals
  private long least = Long.MAX_VALUE; // of the last points of intervals that are not empty
  private long greatest = Long.MIN_VALUE;

  Intervals(Segment segment, Points points, ArrowFile arrow, String closed, boolean ordered) {
    file = arrow.file;
    rows = segment.rows;
    levels = Boxes.levels(arrow.offset(TREE, 0), rows, 8 * FAN);
    file.check(
        arrow.length(TREE) == levels[levels.length - 1] - levels[0],
        "the tree has another size for rows: ",
        rows);
    file.check(arrow.length(EMPTY) <= 8L * rows, "there are more empty intervals than rows: ", rows);
    empties = (int) (arrow.length(EMPTY) / 8);
    empty = arrow.offset(EMPTY, 8L * empties);
    isClosed = closed.equals("right") || closed.equals("both");
    validateTree();
    validateRows(points, closed.equals("right") ? 1 : 0);
    places = ordered ? arrow.offset(PLACES, 4L * rows) : 0;
    for (int row = 0; ordered && row < rows; row++) {
      file.check(place(row) >= 0, "the place is negative at row ", row);
    }
  }

  private void validateTree() {
    long used = rows;
    for (int level = 0; level < levels.length - 1; level++) {
      for (long at = levels[level] + 8 * used; at < levels[level + 1]; at += 8) {
        file.check(file.getLong(at) == Long.MIN_VALUE, "the tree is not filled up at level ", level);
      }
      used = (used + FAN - 1) / FAN;
      for (long node = 0; level < levels.length - 2 && node < used; node++) {
        long most = Long.MIN_VALUE;
        for (long child = node << BITS; child < node + 1 << BITS; child++) {
          most = Math.max(most, value(level, child));
        }
        file.check(value(level + 1, node) == most, "a maximum is wrong at level ", level + 1);
      }
    }
  }

  private void validateRows(Points points, int ahead) {
    int next = 0;
    for (int row = 0; row < rows; row++) {
      boolean listed = next < empties && emptyRow(next) == row;
      if (listed) {
        file.check(value(0, row) == Long.MIN_VALUE, "an empty interval has a last point at row ", row);
        next++;
      } else {
        long start = points.value(row);
        long last = value(0, row);
        boolean inOrder = start <= Long.MAX_VALUE - ahead && last >= start + ahead;
        file.check(inOrder, "an interval ends before it begins at row ", row);
        least = Math.min(least, last);
        // Without its end no interval has the greatest code but one whose end is missing.
        greatest = isClosed || last != Long.MAX_VALUE ? Math.max(greatest, last) : greatest;
      }
    }
    file.check(next == empties, "the empty intervals do not ascend at entry ", next);
  }

  /** The first interval of some rows whose last point is not below the least; -1 if there is none. */
  public int next(int first, int stop, long least) {
    int row = climb(first, stop, least);
    // In the tree an empty interval is like one that ends at the least code.
    while (least == Long.MIN_VALUE && row >= 0 && isEmpty(row)) {
      row = climb(row + 1, stop, least);
    }
    return row;
  }

  private int climb(int first, int stop, long least) {
    if (first >= stop) {
      return -1;
    }
    int node = first;
    for (int level = 0; ; level++) {
      int last = stop - 1 >>> BITS * level;
      int end = Math.min(node | FAN - 1, last);
      for (; node <= end; node++) {
        if (value(level, node) >= least) {
          return descend(level, node, stop, least);
        }
      }
      if (end == last) {
        return -1;
      }
      node >>>= BITS;
    }
  }

  private int descend(int level, int node, int stop, long least) {
    int found = node;
    for (int below = level - 1; below >= 0; below--) {
      int child = found << BITS;
      int last = Math.min(child | FAN - 1, stop - 1 >>> BITS * below);
      while (child <= last && value(below, child) < least) {
        child++;
      }
      if (child > last) {
        // The maximum is that of a row behind: no node before this one is high enough.
        return -1;
      }
      found = child;
    }
    return found;
  }

  /** The last interval of some rows that ends late enough; -1 if none does: as {@link #next}. */
  public int previous(int first, int stop, long least) {
    int row = climbBack(first, stop, least);
    while (least == Long.MIN_VALUE && row >= 0 && isEmpty(row)) {
      row = climbBack(first, row, least);
    }
    return row;
  }

  private int climbBack(int first, int stop, long least) {
    if (first >= stop) {
      return -1;
    }
    int node = stop - 1;
    for (int level = 0; ; level++) {
      int begin = first >>> BITS * level;
      int end = Math.max(node & -FAN, begin);
      for (; node >= end; node--) {
        if (value(level, node) >= least) {
          return descendBack(level, node, first, least);
        }
      }
      if (end == begin) {
        return -1;
      }
      node = (end >>> BITS) - 1;
    }
  }

  private int descendBack(int level, int node, int first, long least) {
    int found = node;
    for (int below = level - 1; below >= 0; below--) {
      int begin = Math.max(found << BITS, first >>> BITS * below);
      int child = found << BITS | FAN - 1;
      while (child >= begin && value(below, child) < least) {
        child--;
      }
      if (child < begin) {
        return -1; // the maximum is that of a row before
      }
      found = child;
    }
    return found;
  }

  private boolean isEmpty(int row) {
    return nextEmpty(row, row + 1) >= 0;
  }

  /** The first row of some whose interval is empty; -1 if there is none. */
  public int nextEmpty(int first, int stop) {
    int low = 0;
    int high = empties;
    while (low < high) {
      int middle = (low + high) >>> 1;
      if (emptyRow(middle) < first) {
        low = middle + 1;
      } else {
        high = middle;
      }
    }
    return low < empties && emptyRow(low) < stop ? (int) emptyRow(low) : -1;
  }

  /** The last point of an interval; the least code if it is empty, the greatest without an end. */
  public long last(int row) {
    return value(0, row);
  }

  /** The least last point of an interval; the greatest code if all are empty. */
  public long least() {
    return least;
  }

  /** The greatest last point of an interval that has an end; the least code if none has. */
  public long greatest() {
    return greatest;
  }

  /** The place of a row among those of its key, in the order that the table was built for. */
  public int place(int row) {
    file.check(places != 0, "it does not have the places of its rows");
    return file.getInt(places + 4L * row);
  }

  private long emptyRow(int entry) {
    return file.getLong(empty + 8L * entry);
  }

  private long value(int level, long node) {
    return file.getLong(levels[level] + 8 * node);
  }
}
