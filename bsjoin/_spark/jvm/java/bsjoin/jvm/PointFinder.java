package bsjoin.jvm;

import org.apache.spark.sql.catalyst.InternalRow;

/**
 * Finds the rows of a key whose points are between two codes, which are neighbours: Algorithm 5 of
 * the BS-Join paper.
 *
 * <p>Rows whose points are beyond the limits are found, too.
 */
public final class PointFinder extends Finder {
  private final CodeLimits limits;
  private transient Points points; // of the rows that follow one by one; null if they are all found
  private transient long key; // the reference of the first row of the key
  private transient int low;
  private transient int row;
  private transient int stop;
  private transient long least;
  private transient long greatest;

  PointFinder(IndexJoin join, CodeLimits limits) {
    super(join);
    this.limits = limits;
  }

  /**
   * The first row.
   *
   * @param search the key
   * @param from the least code
   * @param to the greatest code
   */
  public long first(long search, long from, long to) {
    points = null;
    long found = firstOfKey(search);
    if (found < 0) {
      return NONE;
    }
    Segment segment = version().segment(found);
    Points all = segment.points();
    int begin = Version.row(found);
    int end = segment.end(begin);
    if (!limits.contain(all.least(), all.greatest())) {
      return firstOfAll(all, found, begin, end, from, to);
    }
    int first = from == Long.MIN_VALUE ? begin : all.notBelow(from, begin, end);
    if (first == end || all.value(first) > to) {
      return rows(NONE, 0);
    }
    int after = to == Long.MAX_VALUE ? end : all.aboveFrom(to, first, end);
    return rows(found + (first - begin), after - first);
  }

  private long firstOfAll(Points all, long found, int begin, int end, long from, long to) {
    points = all;
    key = found;
    low = begin;
    row = begin;
    stop = end;
    least = from;
    greatest = to;
    return next();
  }

  @Override
  public long next() {
    if (points == null) {
      return super.next();
    }
    for (; row < stop; row++) {
      long code = points.value(row);
      if (code >= least && code <= greatest || !limits.contain(code, code)) {
        return key + (row++ - low);
      }
    }
    return NONE;
  }

  @Override
  long first(InternalRow arguments) {
    return first(arguments.getLong(0), argument(arguments, 0), argument(arguments, 1));
  }

  @Override
  public boolean equals(Object other) {
    return super.equals(other) && limits.equals(((PointFinder) other).limits);
  }

  @Override
  public int hashCode() {
    return super.hashCode() + limits.hashCode();
  }
}
