package bsjoin.jvm.lookup;

import bsjoin.jvm.storage.Boxes;
import bsjoin.jvm.storage.Intervals;
import bsjoin.jvm.storage.Points;
import bsjoin.jvm.storage.Segment;
import bsjoin.jvm.storage.Version;
import org.apache.spark.sql.catalyst.InternalRow;

/**
 * Finds the rows of a key that meet the stream's row in several ranges at once, by a walk through the
 * tree of {@link Boxes}. Where a segment has none, as each of its keys has few rows, it goes through
 * those of the first range: so all ranges stay a condition on what is found.
 */
public final class BoxFinder extends Finder {
  private static final int MOST_LEVELS = 12;

  private final boolean isInterval; // the first range
  private final int dimensions;
  private final String columns; // that the other ranges are of: Manifest.boxes
  private transient long[] low; // of each dimension
  private transient long[] high;
  private transient int[] blocks; // that the walk is in, of each level
  private transient int[] left; // the entries of these that are still to be visited
  private transient Boxes boxes; // null: there is no tree
  private transient Intervals intervals; // without a tree; null for points
  private transient int begin; // of the key
  private transient int stop; // one past its last row; without a tree, past the last candidate
  private transient int top; // the level on which the walk began
  private transient int level; // of the walk
  private transient int row; // without a tree, the next one to look at
  private transient long key; // the reference of the row 0

  public BoxFinder(Searched rows, boolean isInterval, int dimensions, String columns) {
    super(rows, isInterval + columns);
    this.isInterval = isInterval;
    this.dimensions = dimensions;
    this.columns = columns;
  }

  /**
   * The first row by two ranges.
   *
   * @param search the key
   * @param low the least code of a point or start in the first range
   * @param high the greatest code
   * @param last the least last code of an interval
   */
  public long first(
      long search, long low, long high, long last, long low1, long high1, long last1) {
    bound(0, low, high, last);
    bound(1, low1, high1, last1);
    return begin(search);
  }

  /** The same by three ranges. */
  public long first(
      long search, long low, long high, long last, long low1, long high1, long last1, long low2,
      long high2, long last2) {
    bound(0, low, high, last);
    bound(1, low1, high1, last1);
    bound(2, low2, high2, last2);
    return begin(search);
  }

  @Override
  long first(InternalRow arguments) {
    for (int i = 0; i < dimensions; i++) {
      bound(
          i, argument(arguments, 3 * i), argument(arguments, 3 * i + 1),
          argument(arguments, 3 * i + 2));
    }
    return begin(arguments.getLong(0));
  }

  /** Of points any last code will do, and of intervals any first one. */
  private void bound(int dimension, long least, long most, long last) {
    if (low == null) {
      low = new long[dimensions];
      high = new long[dimensions];
      blocks = new int[MOST_LEVELS];
      left = new int[MOST_LEVELS];
    }
    low[dimension] = Math.max(least, last);
    high[dimension] = most;
  }

  private long begin(long search) {
    long found = firstOfKey(search);
    boxes = null;
    row = stop = 0;
    if (found < 0) {
      return NONE;
    }
    Segment segment = version().segment(found);
    begin = Version.row(found);
    stop = segment.end(begin);
    key = found - begin;
    boxes = columns.equals(version().manifest.boxes) ? segment.boxes : null;
    if (boxes == null) {
      Points points = segment.points();
      intervals = isInterval ? segment.intervals() : null;
      row = isInterval ? begin : points.notBelow(low[0], begin, stop);
      stop = points.above(high[0], begin, stop);
    } else {
      level = 0;
      while (level < boxes.height() - 1 && block(begin) != block(stop - 1)) {
        level++;
      }
      top = level;
      visit(block(begin));
    }
    return next();
  }

  /** The block of the present level that a place of the order is in. */
  private int block(int place) {
    return (int) ((long) place >> Boxes.BITS * (level + 1));
  }

  private void visit(int block) {
    int shift = Boxes.BITS * level;
    int first = (begin >> shift) - (block << Boxes.BITS);
    int last = (stop - 1 >> shift) - (block << Boxes.BITS);
    int met = boxes.met(level, block, low, high);
    met &= first > 0 ? -1 << first : -1;
    met &= last < 31 ? (2 << last) - 1 : -1;
    blocks[level] = block;
    left[level] = met;
  }

  @Override
  public long next() {
    if (boxes == null) {
      return nextOfRange();
    }
    while (true) {
      while (left[level] == 0) {
        if (level == top) {
          return NONE;
        }
        level++;
      }
      int entry = (blocks[level] << Boxes.BITS) + Integer.numberOfTrailingZeros(left[level]);
      left[level] &= left[level] - 1;
      if (level == 0) {
        return key + boxes.row(entry);
      }
      level--;
      visit(entry);
    }
  }

  private long nextOfRange() {
    int next = row < stop && intervals != null ? intervals.next(row, stop, low[0]) : row;
    if (next < 0 || next >= stop) {
      row = stop;
      return NONE;
    }
    row = next + 1;
    return key + next;
  }
}
