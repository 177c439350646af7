package bsjoin.jvm.lookup;

import bsjoin.jvm.storage.Code;
import bsjoin.jvm.storage.Intervals;
import bsjoin.jvm.storage.Segment;
import java.util.Arrays;
import java.util.PriorityQueue;

/**
 * Finds of the intervals of a key that contain a point the one that a join takes: {@code
 * bsjoin/runtimes/python/worker/interval_orders.py}. Of those that are alike for it, it is the first
 * one in the order that the table was built for.
 *
 * <p>Where a join has more conditions, the next ones in the same order follow, until one fulfils
 * them. They are put in order only when the first one does not.
 */
public final class ChosenFinder extends BoundsFinder {
  private final boolean isLatest; // the one that starts last
  private final boolean isEarliest; // the one that ends first
  private final boolean isShortest;
  private final boolean floating; // codes are those of doubles
  private final boolean isClosed; // ends belong to the intervals
  private final int most; // rows that are found
  private transient Intervals intervals;
  private transient int stop; // one past the last row that may be found
  private transient long least; // of the last codes
  private transient int row; // that was found last
  private transient PriorityQueue<Integer> rest; // the other rows; null: not looked for yet

  /** {@code take} is {@code latest_start}, {@code earliest_end}, {@code shortest} or {@code first}. */
  public ChosenFinder(Searched rows, String take, boolean floating, boolean isClosed, int most) {
    super(rows, Arrays.asList(take, floating, isClosed, most).toString());
    isLatest = take.equals("latest_start");
    isEarliest = take.equals("earliest_end");
    isShortest = take.equals("shortest");
    this.floating = floating;
    this.isClosed = isClosed;
    this.most = most;
  }

  @Override
  boolean isUnique() {
    return most == 1 || super.isUnique();
  }

  @Override
  long most() {
    return Math.min(most, super.most());
  }

  @Override
  long bounded(Segment segment, long low, long high, long last) {
    intervals = segment.intervals();
    stop = points.above(high, begin, end);
    least = last;
    rest = null;
    row = isLatest ? latest() : best();
    return row < 0 ? NONE : key + row;
  }

  /** The next row, in the order of what is taken. */
  @Override
  public long next() {
    row = isLatest ? nextLatest() : nextBest();
    return row < 0 ? NONE : key + row;
  }

  /** The first one of those that start last. */
  private int latest() {
    int found = intervals.previous(begin, stop, least);
    return found < 0 ? -1 : intervals.next(points.firstOfEquals(found, begin, end), stop, least);
  }

  /** The next one that starts as late, else the first of those that start last before it. */
  private int nextLatest() {
    int next = intervals.next(row + 1, stop, least);
    if (next >= 0) {
      return next;
    }
    stop = points.firstOfEquals(row, begin, end);
    return latest();
  }

  private int best() {
    int best = candidate(begin);
    int other = best < 0 ? -1 : candidate(best + 1);
    for (; other >= 0; other = candidate(other + 1)) {
      best = order(other, best) < 0 ? other : best;
    }
    return best;
  }

  private int nextBest() {
    if (rest == null) {
      rest = new PriorityQueue<>(this::order);
      for (int other = candidate(begin); other >= 0; other = candidate(other + 1)) {
        if (other != row) {
          rest.add(other);
        }
      }
    }
    return rest.isEmpty() ? -1 : rest.remove();
  }

  /** The first interval from a row on that contains the point. */
  private int candidate(int from) {
    return intervals.next(from, stop, least);
  }

  /** Negative if an interval is before another one in the order of what is taken. */
  private int order(int row, int other) {
    int sign = compare(row, other);
    return sign != 0 ? sign : Integer.compare(intervals.place(row), intervals.place(other));
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
    long start = points.value(row);
    long otherStart = points.value(other);
    if (ranks != null) {
      return ranks.compareBetween(start, last, otherStart, others);
    }
    return floating
        ? Long.compare(length(start, last), length(otherStart, others))
        : Long.compareUnsigned(last - start, others - otherStart);
  }

  /** The code of a length, which is computed in double. */
  private long length(long start, long last) {
    return Code.of(Code.toDouble(isClosed ? last : last + 1) - Code.toDouble(start));
  }
}
