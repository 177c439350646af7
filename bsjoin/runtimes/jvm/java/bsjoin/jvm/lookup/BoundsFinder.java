package bsjoin.jvm.lookup;

import bsjoin.jvm.storage.Points;
import bsjoin.jvm.storage.Ranks;
import bsjoin.jvm.storage.Segment;
import bsjoin.jvm.storage.Version;
import org.apache.spark.sql.catalyst.InternalRow;

/**
 * Finds rows of a key by the points, or intervals, that they are sorted by: by the least and the
 * greatest code of a point or start, and by the least last code of an interval, or another point.
 */
public abstract class BoundsFinder extends Finder {
  transient Points points;
  transient Ranks ranks; // of which the codes are; null if they are numbers
  transient long key; // the reference of the row 0
  transient int begin; // of the key's rows
  transient int end;

  BoundsFinder(Searched rows, String how) {
    super(rows, how);
  }

  /** The first row, of those of the key. */
  abstract long bounded(Segment segment, long low, long high, long last);

  /** What is returned for a key without rows. */
  long none() {
    return NONE;
  }

  /** The code that is searched first. */
  long sought(long low, long high, long last) {
    return low;
  }

  /** What the last bound is in a segment. */
  long last(byte[] bound, Segment segment) {
    return code(bound, segment);
  }

  public final long first(long search, long low, long high, long last) {
    long found = firstOfKey(search, sought(low, high, last));
    return found < 0 ? none() : first(found, version().segment(found), low, high, last);
  }

  /** The same of bounds that are ranks: see {@link RankBound}. */
  public final long first(long search, byte[] low, byte[] high, byte[] last) {
    long found = firstOfKey(search);
    if (found < 0) {
      return none();
    }
    Segment segment = version().segment(found);
    ranks = segment.ranks();
    return first(
        found, segment, code(low, segment), code(high, segment), last(last, segment));
  }

  final long first(long found, Segment segment, long low, long high, long last) {
    begin(found, segment);
    points = segment.points();
    return bounded(segment, low, high, last);
  }

  final void begin(long found, Segment segment) {
    begin = Version.row(found);
    end = segment.end(begin);
    key = found - begin;
  }

  @Override
  long first(InternalRow arguments) {
    long search = arguments.getLong(0);
    return isRanked()
        ? first(search, bound(arguments, 0), bound(arguments, 1), bound(arguments, 2))
        : first(search, argument(arguments, 0), argument(arguments, 1), argument(arguments, 2));
  }
}
