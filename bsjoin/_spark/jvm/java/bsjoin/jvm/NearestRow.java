package bsjoin.jvm;

import com.fasterxml.jackson.databind.JsonNode;
import java.io.Serializable;

/**
 * As-of: of some rows the nearest one to a point: {@code bsjoin/index/nearest.py}.
 *
 * <p>Of rows with equal points it is the first one. Codes of doubles have an order but no distance:
 * distances are computed in double, as Spark does.
 */
final class NearestRow implements Serializable {
  private final boolean backward;
  private final boolean forward;
  private final boolean exact;
  private final boolean floating;
  private final boolean within; // a tolerance
  private final Width before;
  private final Width after;
  private final long unit; // how many units of the point a code is

  /**
   * How a row is chosen.
   *
   * @param node the {@code direction}; whether a row at the point itself is one ({@code exact}); how
   *     many units of the point a code is ({@code unit}); whether codes are those of doubles ({@code
   *     floating}); and the tolerance below and above, as {@link Width} reads it ({@code before},
   *     {@code after}), if there is one
   */
  NearestRow(JsonNode node) {
    String direction = node.path("direction").asText();
    backward = !direction.equals("forward");
    forward = !direction.equals("backward");
    exact = node.path("exact").asBoolean();
    floating = node.path("floating").asBoolean();
    within = node.has("before");
    unit = node.path("unit").asLong(1);
    before = new Width(node.path("before"), unit);
    after = new Width(node.path("after"), unit);
  }

  /**
   * The nearest row; -1 if there is none.
   *
   * @param points of the rows
   * @param low the first of the rows
   * @param high one past the last of them
   * @param point the point
   */
  int find(Points points, int low, int high, long point) {
    long code = unit == 1 ? point : Math.floorDiv(point, unit);
    boolean between = unit > 1 && code * unit != point;
    int at = between ? points.above(code, low, high) : points.notBelow(code, low, high);
    boolean met = !between && at < high && points.value(at) == code;
    int earlier = -1;
    if (backward) {
      earlier = met && exact ? at : points.firstOfEquals(at - 1, low, high);
      earlier = isNear(points, earlier, point) ? earlier : -1;
    }
    int later = -1;
    if (forward) {
      later = met && !exact ? points.aboveFrom(code, at, high) : at;
      later = later < high && isNear(points, later, point) ? later : -1;
    }
    int found = earlier;
    if (earlier < 0 || later >= 0 && isNearer(points.value(later), points.value(earlier), point)) {
      found = later;
    }
    return found;
  }

  /** Whether a row is within the tolerance; false for -1. */
  private boolean isNear(Points points, int row, long point) {
    if (row < 0) {
      return false;
    }
    long value = points.value(row);
    if (floating) {
      return within || backward && forward ? isNear(value, Code.toDouble(point)) : true;
    }
    if (!within) {
      return true;
    }
    long least = before.code(point) + (before.shift(point) > 0 ? 1 : 0);
    return value >= least && value <= after.code(point);
  }

  /** NaN has no distance; an infinity has one to itself only, where there is a tolerance. */
  private boolean isNear(long value, double point) {
    if (Double.isNaN(point)) {
      return false;
    }
    double lowest = Double.NEGATIVE_INFINITY;
    double highest = Double.POSITIVE_INFINITY;
    if (within) {
      boolean finite = !Double.isInfinite(point);
      lowest = finite ? Math.max(before.moved(point), -Double.MAX_VALUE) : point;
      highest = finite ? Math.min(after.moved(point), Double.MAX_VALUE) : point;
    }
    return value >= Code.of(lowest) && value <= Code.of(highest);
  }

  /** Whether a later row is nearer than an earlier one. */
  private boolean isNearer(long later, long earlier, long point) {
    if (!floating) {
      long code = unit == 1 ? point : Math.floorDiv(point, unit);
      long rest = unit == 1 ? 0 : point - code * unit;
      long more = later - code; // than the rest of a code
      long less = code - earlier;
      if (more == less + 1) {
        return unit - rest < rest;
      }
      return rest > 0 && more == less || Long.compareUnsigned(more, less) < 0;
    }
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
}
