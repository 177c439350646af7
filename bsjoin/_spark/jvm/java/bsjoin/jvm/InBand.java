package bsjoin.jvm;

import com.fasterxml.jackson.databind.JsonNode;
import org.apache.spark.sql.types.DataType;
import org.apache.spark.sql.types.DataTypes;

/**
 * The rows of a key in the band around a point, which are neighbours: Algorithm 5 of the BS-Join
 * paper.
 *
 * <p>Both functions get the point's code after the reference.
 */
public abstract class InBand<R> extends OfReference<R> {
  final Width before;
  final Width after;
  final boolean closedLeft;
  final boolean closedRight;

  InBand(String spec, JsonNode node, DataType result) {
    super(spec, node, result, DataTypes.LongType, DataTypes.LongType);
    long unit = node.path("unit").asLong(1);
    before = new Width(node.path("before"), unit);
    after = new Width(node.path("after"), unit);
    String closed = node.path("closed").asText();
    closedLeft = closed.equals("both") || closed.equals("left");
    closedRight = closed.equals("both") || closed.equals("right");
  }

  /** Whether the band begins above the code of its lower end, not at it. */
  final boolean beginsAbove(long point) {
    int shift = before.shift(point);
    return closedLeft ? shift > 0 : shift >= 0;
  }

  /** Whether a row at the code of the band's upper end is in the band. */
  final boolean endsAt(long point) {
    int shift = after.shift(point);
    return closedRight ? shift >= 0 : shift > 0;
  }

  /** From the reference of a key's first row to that of the first one in the band. */
  public static final class First extends InBand<Long> {
    First(String spec, JsonNode node) {
      super(spec, node, DataTypes.LongType);
    }

    @Override
    public String name() {
      return "bsjoin_band";
    }

    public long invoke(long reference, long point) {
      if (reference < 0) {
        return Version.MISSING;
      }
      Segment segment = segment(reference);
      Points points = segment.points();
      int low = Version.row(reference);
      int high = segment.end(low);
      long from = before.code(point);
      int row =
          beginsAbove(point) ? points.above(from, low, high) : points.notBelow(from, low, high);
      if (row == high) {
        return Version.MISSING;
      }
      long to = after.code(point);
      long value = points.value(row);
      boolean inside = endsAt(point) ? value <= to : value < to;
      return inside ? reference + (row - low) : Version.MISSING;
    }
  }

  /** How many rows from the first one on are in the band; 0 for a missing one. */
  public static final class Count extends InBand<Integer> {
    Count(String spec, JsonNode node) {
      super(spec, node, DataTypes.IntegerType);
    }

    @Override
    public String name() {
      return "bsjoin_band_count";
    }

    public int invoke(long reference, long point) {
      if (reference < 0) {
        return 0;
      }
      Segment segment = segment(reference);
      Points points = segment.points();
      int row = Version.row(reference);
      int high = segment.end(row);
      long to = after.code(point);
      if (!endsAt(point)) {
        if (to == Long.MIN_VALUE) {
          return 0;
        }
        to--;
      }
      return points.aboveFrom(to, row, high) - row;
    }
  }
}
