package bsjoin.jvm;

import com.fasterxml.jackson.databind.JsonNode;
import org.apache.spark.sql.catalyst.InternalRow;

/**
 * Finds the rows of a key in the band around a point, which are neighbours: Algorithm 5 of the
 * BS-Join paper.
 */
public final class BandFinder extends Finder {
  private final Width before;
  private final Width after;
  private final boolean closedLeft;
  private final boolean closedRight;

  /**
   * A finder.
   *
   * @param how the widths, as {@link Width} reads them ({@code before}, {@code after}), which ends
   *     are {@code closed}, and how many units of the point a code is ({@code unit})
   */
  BandFinder(IndexJoin join, JsonNode how) {
    super(join, how.toString());
    long unit = how.path("unit").asLong(1);
    before = new Width(how.path("before"), unit);
    after = new Width(how.path("after"), unit);
    String closed = how.path("closed").asText();
    closedLeft = closed.equals("both") || closed.equals("left");
    closedRight = closed.equals("both") || closed.equals("right");
  }

  /**
   * The first row.
   *
   * @param search the key
   * @param point the code of the point, in units of its last digit
   */
  public long first(long search, long point) {
    long found = firstOfKey(search);
    if (found < 0) {
      return NONE;
    }
    Segment segment = version().segment(found);
    Points points = segment.points();
    int begin = Version.row(found);
    int end = segment.end(begin);
    long from = before.code(point);
    int shift = before.shift(point);
    boolean above = closedLeft ? shift > 0 : shift >= 0;
    int first = above ? points.above(from, begin, end) : points.notBelow(from, begin, end);
    if (first == end) {
      return rows(NONE, 0);
    }
    long to = after.code(point);
    shift = after.shift(point);
    if (closedRight ? shift < 0 : shift <= 0) {
      if (to == Long.MIN_VALUE) {
        return rows(NONE, 0);
      }
      to--;
    }
    if (points.value(first) > to) {
      return rows(NONE, 0);
    }
    int count = isUnique() ? 1 : points.aboveFrom(to, first, end) - first;
    return rows(found + (first - begin), count);
  }

  @Override
  long first(InternalRow arguments) {
    return first(arguments.getLong(0), argument(arguments, 0));
  }
}
