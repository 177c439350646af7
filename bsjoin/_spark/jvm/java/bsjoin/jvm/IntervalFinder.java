package bsjoin.jvm;

import org.apache.spark.sql.catalyst.InternalRow;

/**
 * Finds the rows of a key whose intervals begin between two codes, and end late enough.
 *
 * <p>Where codes are beyond the limits a bound leaves out no row. Empty intervals, which the index
 * has apart, follow the others, whatever their ends.
 */
public final class IntervalFinder extends Finder {
  private final CodeLimits starts;
  private final CodeLimits ends;
  private final boolean withEmpty;
  private transient Intervals intervals;
  private transient long key; // the reference of the row 0
  private transient int from;
  private transient int row; // the next one to look at
  private transient int stop;
  private transient long least; // of the last codes
  private transient int empty; // the next entry among empty intervals; -1 before the first one

  IntervalFinder(IndexJoin join, CodeLimits starts, CodeLimits ends, boolean withEmpty) {
    super(join);
    this.starts = starts;
    this.ends = ends;
    this.withEmpty = withEmpty;
  }

  /**
   * The first row.
   *
   * @param search the key
   * @param low the least code of a start
   * @param high the greatest code of a start
   * @param last the least last code
   */
  public long first(long search, long low, long high, long last) {
    stop = 0;
    row = 0;
    empty = -1;
    from = 0;
    long found = firstOfKey(search);
    if (found < 0) {
      return NONE;
    }
    Segment segment = version().segment(found);
    Points points = segment.points();
    intervals = segment.intervals();
    int begin = Version.row(found);
    int end = segment.end(begin);
    key = found - begin;
    boolean isBound = starts.contain(points.least(), points.greatest());
    from = low == Long.MIN_VALUE || !isBound ? begin : points.notBelow(low, begin, end);
    stop = high == Long.MAX_VALUE || !isBound ? end : points.above(high, from, end);
    least = ends.contain(intervals.least(), intervals.greatest()) ? last : Long.MIN_VALUE;
    row = from;
    return next();
  }

  @Override
  public long next() {
    if (row < stop) {
      int next = intervals.next(row, stop, least);
      if (next >= 0) {
        row = next + 1;
        return key + next;
      }
      row = stop;
    }
    if (!withEmpty || from >= stop) {
      return NONE;
    }
    empty = empty < 0 ? intervals.emptyFrom(from) : empty + 1;
    int next = intervals.emptyRow(empty, stop);
    if (next < 0) {
      from = stop;
      return NONE;
    }
    return key + next;
  }

  @Override
  long first(InternalRow arguments) {
    return first(
        arguments.getLong(0),
        argument(arguments, 0),
        argument(arguments, 1),
        argument(arguments, 2));
  }

  @Override
  public boolean equals(Object other) {
    return super.equals(other)
        && starts.equals(((IntervalFinder) other).starts)
        && ends.equals(((IntervalFinder) other).ends)
        && withEmpty == ((IntervalFinder) other).withEmpty;
  }

  @Override
  public int hashCode() {
    return super.hashCode() + starts.hashCode() + 31 * ends.hashCode();
  }
}
