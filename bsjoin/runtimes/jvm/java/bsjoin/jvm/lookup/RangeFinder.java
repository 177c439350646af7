package bsjoin.jvm.lookup;

import bsjoin.jvm.storage.Intervals;
import bsjoin.jvm.storage.Segment;
import java.util.Arrays;

/**
 * Finds the rows of a key whose points, or starts of intervals, are between two codes, which are
 * neighbours: Algorithm 5 of the BS-Join paper; and of intervals those that end late enough.
 *
 * <p>The bounds hold for codes within limits: rows with others are found, too. Empty intervals, which
 * the index has apart, follow the others, whatever their ends.
 */
public class RangeFinder extends BoundsFinder {
  private final boolean isInterval;
  private final long[] limits; // the least and the greatest code of a start, and those of last codes
  private final boolean withEmpty;
  private final boolean isRun;
  private transient Intervals intervals; // null for points
  private transient boolean isBound; // no row is beyond the limits
  private transient long low;
  private transient long high;
  private transient long least; // of the last codes
  private transient int row; // the next one to look at
  private transient int empty; // the same for empty intervals
  private transient int stop;

  public RangeFinder(
      Searched rows, boolean isInterval, long[] limits, boolean withEmpty, boolean isRun) {
    this(rows, isInterval, limits, withEmpty, isRun, "");
  }

  RangeFinder(
      Searched rows, boolean isInterval, long[] limits, boolean withEmpty, boolean isRun,
      String how) {
    super(rows, isInterval + Arrays.toString(limits) + withEmpty + isRun + how);
    this.isRun = isRun;
    this.isInterval = isInterval;
    this.limits = limits;
    this.withEmpty = withEmpty;
  }

  @Override
  int searched() {
    return 0;
  }

  @Override
  boolean isUnique() {
    return isRun || super.isUnique();
  }

  @Override
  boolean isRun() {
    return isRun;
  }

  @Override
  final long none() {
    isBound = true;
    intervals = null;
    return rows(NONE, 0);
  }

  @Override
  final long bounded(Segment segment, long low, long high, long last) {
    intervals = null;
    isBound = isWithin(0, points.least(), points.greatest());
    row = begin;
    stop = end;
    if (isBound) {
      row = low == Long.MIN_VALUE ? begin : notBelow(points, low, begin, end);
      if (row == end || points.value(row) > high) {
        return rows(NONE, 0);
      }
      if (!isInterval) {
        stop = high == Long.MAX_VALUE ? end : aboveFrom(points, high, row, begin, end);
        return rows(key + row, stop - row);
      }
      stop = points.above(high, begin, end);
    }
    this.low = low;
    this.high = high;
    empty = withEmpty ? row : stop;
    if (isInterval) {
      intervals = segment.intervals();
      least = isWithin(2, intervals.least(), intervals.greatest()) ? last : Long.MIN_VALUE;
    }
    return next();
  }

  /** Whether codes are within limits, of which those of last codes are behind those of starts. */
  final boolean isWithin(int limit, long from, long to) {
    return from >= limits[limit] && to <= limits[limit + 1];
  }

  @Override
  public long next() {
    if (isBound && intervals == null) {
      return super.next();
    }
    while (row < stop) {
      int next = intervals == null ? row : intervals.next(row, stop, least);
      row = next < 0 ? stop : next + 1;
      if (next >= 0 && isCandidate(next)) {
        return key + next;
      }
    }
    while (empty < stop) {
      int next = intervals.nextEmpty(empty, stop);
      empty = next < 0 ? stop : next + 1;
      if (next >= 0 && isCandidate(next)) {
        return key + next;
      }
    }
    return NONE;
  }

  private boolean isCandidate(int row) {
    long code = points.value(row);
    return isBound || code >= low && code <= high || !isWithin(0, code, code);
  }
}
