package bsjoin.jvm.lookup;

import bsjoin.jvm.storage.Boxes;
import bsjoin.jvm.storage.Points;
import bsjoin.jvm.storage.Segment;
import org.apache.spark.sql.catalyst.InternalRow;

/**
 * Finds the rows of a key that meet the stream's row in several ranges at once, by a walk through the
 * tree of {@link Boxes}. Where a segment has none, as each of its keys has few rows, or has codes
 * beyond the limits, those of the first range are found: so all ranges stay a condition on what is
 * found.
 */
public final class BoxFinder extends RangeFinder {
  private static final int MOST_LEVELS = 12;

  private final long[] limits; // of each dimension four, as those of a range
  private final boolean withOthers;
  private final int dimensions;
  private final String columns; // that the other ranges are of: Manifest.boxes
  private transient long[] low; // of each dimension
  private transient long[] high;
  private transient int[] blocks; // that the walk is in, of each level
  private transient int[] left; // the entries of these that are still to be visited
  private transient Segment looked; // whether it is searched by its boxes
  private transient boolean isBoxed;
  private transient Boxes boxes; // null: the first range is searched
  private transient int top; // the level on which the walk began
  private transient int level; // of the walk
  private transient int other; // the next row to look at of those that are in no box
  private transient int otherStop;

  /**
   * Boxes of a table; for the other arguments see {@link RangeFinder}.
   *
   * @param limits the four of the first range, then those of each further one
   * @param withOthers rows that are in no box, as an interval of them is empty, are found, too, if the
   *     first range admits them
   * @param columns that the further ranges are of
   */
  public BoxFinder(
      Searched rows, boolean isInterval, long[] limits, boolean withEmpty, boolean withOthers,
      String columns) {
    super(rows, isInterval, limits, withEmpty, false, withOthers + columns);
    this.limits = limits;
    this.withOthers = withOthers;
    this.columns = columns;
    dimensions = limits.length / 4;
  }

  @Override
  int searched() {
    return -1;
  }

  /** The first row by two ranges: as {@link RangeFinder} by each of them. */
  public long first(
      long search, long low, long high, long last, long low1, long high1, long last1) {
    bound(0, low, high, last);
    bound(1, low1, high1, last1);
    return begin(firstOfKey(search), low, high, last);
  }

  /** The same by three ranges. */
  public long first(
      long search, long low, long high, long last, long low1, long high1, long last1, long low2,
      long high2, long last2) {
    bound(0, low, high, last);
    bound(1, low1, high1, last1);
    bound(2, low2, high2, last2);
    return begin(firstOfKey(search), low, high, last);
  }

  @Override
  long first(InternalRow arguments) {
    for (int i = 0; i < dimensions; i++) {
      bound(
          i, argument(arguments, 3 * i), argument(arguments, 3 * i + 1),
          argument(arguments, 3 * i + 2));
    }
    return begin(
        firstOfKey(arguments.getLong(0)), argument(arguments, 0), argument(arguments, 1),
        argument(arguments, 2));
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

  private long begin(long found, long least, long most, long last) {
    boxes = null;
    if (found < 0) {
      return none();
    }
    Segment segment = version().segment(found);
    if (segment != looked) {
      looked = segment;
      isBoxed = isBoxed(segment);
    }
    if (!isBoxed) {
      return first(found, segment, least, most, last);
    }
    boxes = segment.boxes;
    begin(found, segment);
    level = 0;
    while (level < boxes.height() - 1 && block(begin) != block(end - 1)) {
      level++;
    }
    top = level;
    visit(block(begin));
    other = otherStop = 0;
    if (withOthers && boxes.nextWithout(begin, end) >= 0) {
      other = segment.points().notBelow(least, begin, end);
      otherStop = segment.points().above(most, begin, end);
    }
    return next();
  }

  /** Whether the bounds hold for all codes of a segment with boxes. */
  private boolean isBoxed(Segment segment) {
    if (segment.boxes == null || !columns.equals(version().manifest.boxes)) {
      return false;
    }
    Points points = segment.points();
    boolean areWithin = isWithin(0, points.least(), points.greatest());
    for (int i = 0; i < limits.length; i += 2) {
      areWithin &= segment.boxes.areWithin(i / 4, limits[i], limits[i + 1]);
    }
    return areWithin;
  }

  /** The block of the present level that a place of the order is in. */
  private int block(int place) {
    return (int) ((long) place >> Boxes.BITS * (level + 1));
  }

  private void visit(int block) {
    int shift = Boxes.BITS * level;
    int first = (begin >> shift) - (block << Boxes.BITS);
    int last = (end - 1 >> shift) - (block << Boxes.BITS);
    int met = boxes.met(level, block, low, high);
    met &= first > 0 ? -1 << first : -1;
    met &= last < 31 ? (2 << last) - 1 : -1;
    blocks[level] = block;
    left[level] = met;
  }

  @Override
  public long next() {
    if (boxes == null) {
      return super.next();
    }
    while (true) {
      while (left[level] == 0) {
        if (level == top) {
          return nextOther();
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

  private long nextOther() {
    int next = other < otherStop ? boxes.nextWithout(other, otherStop) : -1;
    other = next < 0 ? otherStop : next + 1;
    return next < 0 ? NONE : key + next;
  }
}
