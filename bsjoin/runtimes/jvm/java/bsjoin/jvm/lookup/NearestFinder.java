package bsjoin.jvm.lookup;

import bsjoin.jvm.storage.Code;
import bsjoin.jvm.storage.Points;
import bsjoin.jvm.storage.Segment;
import bsjoin.jvm.storage.Version;
import java.util.Arrays;
import org.apache.spark.sql.catalyst.InternalRow;

/**
 * As-of: finds of the rows of a key whose points are between two codes the last one, the first one,
 * or the nearest one to a point: {@code bsjoin/index/nearest.py}. Of rows with equal points it is the
 * first one.
 */
public final class NearestFinder extends Finder {
  private final boolean isLast; // the last row is found
  private final boolean isFirst;
  private final boolean exact; // a row at the point itself may be the nearest one
  private final boolean floating; // codes are those of doubles, which have an order but no distance
  private final long unit; // how many units of the point a code is

  public NearestFinder(Searched rows, String direction, boolean exact, boolean floating, long unit) {
    super(rows, Arrays.asList(direction, exact, floating, unit).toString());
    isLast = direction.equals("backward");
    isFirst = direction.equals("forward");
    this.exact = exact;
    this.floating = floating;
    this.unit = unit;
  }

  @Override
  boolean isUnique() {
    return true;
  }

  /**
   * The row.
   *
   * @param search the key
   * @param low the least code
   * @param high the greatest code
   * @param point to which the row is the nearest one, in units of its last digit
   */
  public long first(long search, long low, long high, long point) {
    long found = firstOfKey(search);
    if (found < 0) {
      return NONE;
    }
    Segment segment = version().segment(found);
    Points points = segment.points();
    int begin = Version.row(found);
    int end = segment.end(begin);
    int row;
    if (isLast) {
      row = points.firstOfEquals(points.above(high, begin, end) - 1, begin, end);
    } else if (isFirst) {
      row = points.notBelow(low, begin, end);
    } else {
      row = nearest(points, begin, end, low, high, point);
    }
    boolean isFound =
        row >= begin && row < end && points.value(row) >= low && points.value(row) <= high;
    return isFound ? found + (row - begin) : NONE;
  }

  private int nearest(Points points, int begin, int end, long low, long high, long point) {
    if (floating && Double.isNaN(Code.toDouble(point))) {
      return end; // it has no distance
    }
    long code = unit == 1 ? point : Math.floorDiv(point, unit);
    boolean between = code * unit != point;
    int at = between ? points.above(code, begin, end) : points.notBelow(code, begin, end);
    boolean met = !between && at < end && points.value(at) == code;
    if (met && exact) {
      return at;
    }
    int earlier = points.firstOfEquals(at - 1, begin, end);
    int later = met ? points.aboveFrom(code, at, end) : at;
    if (earlier < 0 || points.value(earlier) < low) {
      return later;
    }
    boolean isLater = later < end && points.value(later) <= high;
    return isLater && isNearer(points.value(later), points.value(earlier), point) ? later : earlier;
  }

  /** Whether a later row is nearer than an earlier one. */
  private boolean isNearer(long later, long earlier, long point) {
    if (!floating) {
      long code = unit == 1 ? point : Math.floorDiv(point, unit);
      long rest = point - code * unit;
      long more = later - code; // than the rest of a code
      long less = code - earlier;
      if (more == less + 1) {
        return unit - rest < rest;
      }
      return rest > 0 && more == less || Long.compareUnsigned(more, less) < 0;
    }
    // Distances are computed in double, as Spark does.
    double at = Code.toDouble(point);
    double back = at - Code.toDouble(earlier);
    double ahead = Code.toDouble(later) - at;
    if (Double.isInfinite(back) && Double.isInfinite(ahead)) {
      // A distance between finite values may overflow a double, half of it does not.
      back = at / 2 - Code.toDouble(earlier) / 2;
      ahead = Code.toDouble(later) / 2 - at / 2;
    }
    return ahead < back;
  }

  @Override
  long first(InternalRow arguments) {
    return first(
        arguments.getLong(0),
        argument(arguments, 0),
        argument(arguments, 1),
        argument(arguments, 2));
  }
}
