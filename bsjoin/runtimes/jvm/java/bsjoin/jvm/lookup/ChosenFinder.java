package bsjoin.jvm.lookup;

import bsjoin.jvm.storage.Code;
import bsjoin.jvm.storage.Intervals;
import bsjoin.jvm.storage.Points;
import bsjoin.jvm.storage.Ranks;
import bsjoin.jvm.storage.Segment;
import bsjoin.jvm.storage.Version;
import java.math.BigInteger;
import java.util.Arrays;
import org.apache.spark.sql.catalyst.InternalRow;

/**
 * Finds of the intervals of a key that contain a point the one that a join takes: {@code
 * bsjoin/runtimes/python/worker/interval_orders.py}. Of those that are alike for it, it is the first
 * one in the order that the table was built for.
 */
public final class ChosenFinder extends Finder {
  private final boolean isLatest; // the one that starts last
  private final boolean isEarliest; // the one that ends first
  private final boolean isShortest;
  private final boolean floating; // codes are those of doubles
  private final boolean isClosed; // ends belong to the intervals
  private transient Points points;
  private transient Intervals intervals;
  private transient Ranks ranks; // null if codes are no ranks

  /** {@code take} is {@code latest_start}, {@code earliest_end}, {@code shortest} or {@code first}. */
  public ChosenFinder(Searched rows, String take, boolean floating, boolean isClosed) {
    super(rows, Arrays.asList(take, floating, isClosed).toString());
    isLatest = take.equals("latest_start");
    isEarliest = take.equals("earliest_end");
    isShortest = take.equals("shortest");
    this.floating = floating;
    this.isClosed = isClosed;
  }

  @Override
  boolean isUnique() {
    return true;
  }

  /**
   * The row.
   *
   * @param search the key
   * @param low the least code of a start: any
   * @param high the greatest code
   * @param last the least last code of an interval
   */
  public long first(long search, long low, long high, long last) {
    long found = firstOfKey(search);
    return found < 0 ? NONE : first(found, version().segment(found), high, last);
  }

  /** The same of bounds that are ranks: see {@link RankBound}. */
  public long first(long search, byte[] low, byte[] high, byte[] last) {
    long found = firstOfKey(search);
    if (found < 0) {
      return NONE;
    }
    Segment segment = version().segment(found);
    ranks = segment.ranks();
    return first(found, segment, code(high, segment), code(last, segment));
  }

  private long first(long found, Segment segment, long high, long last) {
    points = segment.points();
    intervals = segment.intervals();
    int begin = Version.row(found);
    int end = segment.end(begin);
    int stop = points.above(high, begin, end);
    int row;
    if (isLatest) {
      row = intervals.previous(begin, stop, last);
      row = row < 0 ? -1 : intervals.next(points.firstOfEquals(row, begin, end), stop, last);
    } else {
      row = best(begin, stop, last);
    }
    return row < 0 ? NONE : found + (row - begin);
  }

  private int best(int begin, int stop, long last) {
    int best = intervals.next(begin, stop, last);
    int row = best < 0 ? -1 : intervals.next(best + 1, stop, last);
    for (; row >= 0; row = intervals.next(row + 1, stop, last)) {
      int sign = compare(row, best);
      if (sign < 0 || sign == 0 && intervals.place(row) < intervals.place(best)) {
        best = row;
      }
    }
    return best;
  }

  /** Negative if an interval is taken before another one, 0 if they are alike. */
  private int compare(int row, int other) {
    long last = intervals.last(row);
    long others = intervals.last(other);
    boolean isEndless = last == Long.MAX_VALUE || others == Long.MAX_VALUE;
    if (!isShortest) {
      return isEarliest ? Long.compare(last, others) : 0;
    }
    if (isEndless) { // longer than all others
      return Boolean.compare(last == Long.MAX_VALUE, others == Long.MAX_VALUE);
    }
    if (ranks != null) {
      return wideLength(row, last).compareTo(wideLength(other, others));
    }
    long start = points.value(row);
    long otherStart = points.value(other);
    return floating
        ? Long.compare(length(start, last), length(otherStart, others))
        : Long.compareUnsigned(last - start, others - otherStart);
  }

  private BigInteger wideLength(int row, long last) {
    return ranks.filled(last).subtract(ranks.filled(points.value(row)));
  }

  /** The code of a length, which is computed in double. */
  private long length(long start, long last) {
    return Code.of(Code.toDouble(isClosed ? last : last + 1) - Code.toDouble(start));
  }

  @Override
  long first(InternalRow arguments) {
    return isRanked()
        ? first(
            arguments.getLong(0), bound(arguments, 0), bound(arguments, 1), bound(arguments, 2))
        : first(
            arguments.getLong(0), argument(arguments, 0), argument(arguments, 1),
            argument(arguments, 2));
  }
}
