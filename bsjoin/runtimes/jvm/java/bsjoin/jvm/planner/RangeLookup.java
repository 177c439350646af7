package bsjoin.jvm.planner;

import bsjoin.jvm.lookup.Bound;
import bsjoin.jvm.lookup.BoxFinder;
import bsjoin.jvm.lookup.ChosenFinder;
import bsjoin.jvm.lookup.Finder;
import bsjoin.jvm.lookup.NearestFinder;
import bsjoin.jvm.lookup.RangeBound;
import bsjoin.jvm.lookup.RangeFinder;
import bsjoin.jvm.lookup.RankBound;
import bsjoin.jvm.storage.Code;
import bsjoin.jvm.storage.Dimension;
import bsjoin.jvm.storage.Types;
import com.fasterxml.jackson.databind.JsonNode;
import java.math.BigDecimal;
import java.math.BigInteger;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import org.apache.spark.sql.catalyst.expressions.Alias;
import org.apache.spark.sql.catalyst.expressions.AttributeReference;
import org.apache.spark.sql.catalyst.expressions.Expression;
import org.apache.spark.sql.catalyst.expressions.GreaterThan;
import org.apache.spark.sql.catalyst.expressions.GreaterThanOrEqual;
import org.apache.spark.sql.catalyst.expressions.If;
import org.apache.spark.sql.catalyst.expressions.IsNull;
import org.apache.spark.sql.catalyst.expressions.Literal;
import org.apache.spark.sql.catalyst.expressions.Or;
import org.apache.spark.sql.types.DataType;
import org.apache.spark.sql.types.DataTypes;
import org.apache.spark.sql.types.Decimal;
import org.apache.spark.sql.types.DecimalType;

/**
 * Look-ups by the points or intervals that a table is sorted by: the rows of a key that are within
 * bounds, or the nearest one of them.
 *
 * <p>Predicates of SQL ({@link Ranges}), calls of as_of ({@link AsOfCondition}) and the conditions of
 * {@code bsjoin.join} (here) all become such bounds, and the finders know nothing else.
 */
public final class RangeLookup {
  private RangeLookup() {}

  /**
   * Of each dimension the least and the greatest code of points or starts, and those of ends, for
   * which bounds hold: any.
   */
  static long[] noLimits(int dimensions) {
    long[] found = new long[4 * dimensions];
    Arrays.setAll(found, i -> i % 2 == 0 ? Long.MIN_VALUE : Long.MAX_VALUE);
    return found;
  }

  /** What a {@link RangeFinder} gets; of points or starts null is for any. */
  static List<Expression> bounds(
      DataType codes, Expression lower, Expression upper, Expression last) {
    return Arrays.asList(
        lower == null ? limit(codes, true) : lower,
        upper == null ? limit(codes, false) : upper,
        last == null ? limit(codes, true) : last);
  }

  private static Literal limit(DataType codes, boolean lower) {
    return bound(codes, Types.literal(0, DataTypes.LongType), lower, true, BigDecimal.ZERO).limit();
  }

  /**
   * The nearest rows to a point.
   *
   * @param value the point
   * @param direction {@code backward}, {@code forward} or {@code nearest}
   * @param exact whether a row at the point itself counts
   * @param tolerance how far away it may be: a double to doubles; null for any distance
   * @param most how many rows are found at most; of them those that fulfil the residual condition
   */
  static Search nearest(
      IndexJoin join, Expression value, String direction, boolean exact, Number tolerance, int most,
      List<Expression> residual, List<Expression> answered) {
    List<Alias> computed = new ArrayList<>();
    DataType type = join.manifest.range.type();
    Expression point = cheap(value, computed);
    boolean floating = Types.isFloating(point.dataType());
    Expression lower = null;
    Expression upper = null;
    Expression at = null;
    if (tolerance != null) {
      Number less =
          tolerance instanceof BigDecimal exactly
              ? exactly.negate()
              : (Number) (-tolerance.doubleValue());
      lower = new Bound(point, rule(type, point, true, true, less, 0).near(), true);
      upper = new Bound(point, rule(type, point, false, true, tolerance, 0).near(), true);
    }
    int codes = Types.scale(type);
    boolean isWide = isWide(point.dataType(), type);
    int scale = Types.scale(point.dataType());
    int finest = Math.max(codes, scale);
    if (direction.equals("backward")) {
      upper = bound(type, point, false, exact, BigDecimal.ZERO);
    } else if (direction.equals("forward")) {
      lower = bound(type, point, true, exact, BigDecimal.ZERO);
    } else {
      RangeBound same =
          isWide
              ? new RankBound(true, true, BigDecimal.ZERO, scale, finest, 0)
              : new RangeBound(true, true, BigDecimal.ZERO, scale, finest, 0);
      at = new Bound(point, same, true);
      if (floating && upper == null) {
        // NaN has no distance.
        upper = Types.literal(Code.of(Double.POSITIVE_INFINITY), DataTypes.LongType);
      }
    }
    BigInteger unit = BigInteger.TEN.pow(finest - codes);
    isWide &= at != null;
    Finder finder =
        new NearestFinder(join.searched(), direction, exact, floating, unit, isWide, most);
    return new Search(finder, bounds(type, lower, upper, at), residual, answered, computed);
  }

  /** Whether two exact numbers need more than 64 bits in units of the last digit that either has. */
  static boolean isWide(DataType point, DataType codes) {
    boolean isMixed = point instanceof DecimalType || codes instanceof DecimalType;
    int scale = Math.max(Types.scale(codes), Types.scale(point));
    return Types.isRanked(codes)
        || isMixed && Types.digits(point) + scale > Decimal.MAX_LONG_DIGITS();
  }

  /** A value that is used several times. */
  private static Expression cheap(Expression value, List<Alias> computed) {
    boolean isCheap = Bound.isSafe(value) && !(value.dataType() instanceof DecimalType);
    return isCheap || value instanceof AttributeReference ? value : Search.column(value, computed);
  }

  /**
   * A condition of {@code bsjoin.join}.
   *
   * @param how its {@code kind}: a {@code band} with the widths {@code before} and {@code after} and
   *     the ends that are {@code closed}; an {@code asof} with {@code direction}, {@code exact} and
   *     {@code tolerance}, of which there are {@code n}; else intervals, with their ends that are
   *     {@code closed}, and which of them to {@code take} if not all, first to last, of which there
   *     are {@code n}
   * @param probes the values of the stream that the table is searched by
   * @param isRun whether all rows in a band are one result
   */
  static Search of(IndexJoin join, JsonNode how, List<Expression> probes, boolean isRun) {
    Expression point = probes.get(0);
    String closed = how.path("closed").asText();
    List<Alias> computed = new ArrayList<>();
    List<Expression> residual = List.of();
    if (how.path("kind").asText().equals("asof")) {
      Number tolerance = how.has("tolerance") ? width(how, "tolerance", point) : null;
      return nearest(
          join, point, how.path("direction").asText(), how.path("exact").asBoolean(), tolerance,
          how.path("n").asInt(1), residual, probes);
    }
    List<Expression> arguments = arguments(join.manifest.range.type(), how, probes, computed);
    boolean areIntervals = join.manifest.rangeColumns > 1;
    Finder finder = new RangeFinder(join.searched(), areIntervals, noLimits(1), false, isRun);
    if (how.has("take")) {
      finder =
          new ChosenFinder(
              join.searched(), how.path("take").asText(), Types.isFloating(point.dataType()),
              closed.equals("both") || closed.equals("right"), how.path("n").asInt(1));
    }
    return new Search(finder, arguments, residual, probes, computed);
  }

  /**
   * Several conditions that a row fulfils together; what is found may not.
   *
   * @param how the first one, as for {@link #of}
   * @param others the others, whose ranges are those of the table's boxes
   * @param probes the values of the stream for all of them
   */
  static Search boxes(IndexJoin join, JsonNode how, JsonNode others, List<Expression> probes) {
    List<Alias> computed = new ArrayList<>();
    List<Expression> arguments = new ArrayList<>();
    List<Dimension> dimensions = join.manifest.dimensions;
    int next = 0;
    for (int i = 0; i < dimensions.size(); i++) {
      JsonNode one = i == 0 ? how : others.get(i - 1);
      int end = next + columns(one);
      List<Expression> own = probes.subList(next, end);
      arguments.addAll(arguments(dimensions.get(i).type(), one, own, computed));
      next = end;
    }
    long[] limits = noLimits(dimensions.size());
    boolean areIntervals = dimensions.get(0).isInterval();
    Finder finder =
        new BoxFinder(
            join.searched(), areIntervals, limits, false, false, join.manifest.boxes);
    return new Search(finder, arguments, List.of(), probes, computed);
  }

  static int columns(JsonNode how) {
    return how.path("kind").asText().equals("overlaps") ? 2 : 1;
  }

  /** The bounds that a band or a condition on intervals means. */
  private static List<Expression> arguments(
      DataType codes, JsonNode how, List<Expression> probes, List<Alias> computed) {
    String closed = how.path("closed").asText();
    if (!how.path("kind").asText().equals("band")) {
      return intervals(codes, closed, probes);
    }
    boolean left = closed.equals("both") || closed.equals("left");
    boolean right = closed.equals("both") || closed.equals("right");
    Expression point = cheap(probes.get(0), computed);
    Expression lower = bound(codes, point, true, left, width(how, "before", point));
    Expression upper = bound(codes, point, false, right, width(how, "after", point));
    return bounds(codes, lower, upper, null);
  }

  /**
   * The intervals that have a point in common with the stream's point, or interval.
   *
   * <p>The index has the end of an interval as its last point, or the code before if the end does
   * not belong to it.
   */
  private static List<Expression> intervals(
      DataType codes, String closed, List<Expression> probes) {
    boolean isPoint = probes.size() == 1;
    boolean touching = closed.equals("both");
    boolean closedRight = touching || closed.equals("right");
    Expression start = probes.get(0);
    Expression end = probes.get(probes.size() - 1);
    boolean atEnd = touching || isPoint && closed.equals("left");
    RangeBound until = rule(codes, end, false, atEnd, BigDecimal.ZERO, 0);
    Expression upper = new Bound(end, until.orNull(!isPoint), true);
    boolean isDecimal = start.dataType() instanceof DecimalType;
    boolean atStart = touching || isPoint && closedRight;
    RangeBound from = rule(codes, start, true, atStart, BigDecimal.ZERO, closedRight ? 0 : -1);
    from.open(isDecimal); // beyond 64 bits there are the intervals without an end
    if (!isPoint) {
      // An interval of the stream that is empty has no point in common with any.
      Expression empty =
          touching ? new GreaterThan(start, end) : new GreaterThanOrEqual(start, end);
      if (!touching && !closed.equals("left") && Types.isFull(start.dataType())) {
        empty = new Or(empty, new IsNull(bound(codes, start, true, false, BigDecimal.ZERO)));
      }
      upper = new If(empty, new Literal(null, upper.dataType()), upper);
    }
    return bounds(codes, null, upper, new Bound(start, from, true));
  }

  private static Bound bound(
      DataType codes, Expression value, boolean lower, boolean inclusive, Number moved) {
    return new Bound(value, rule(codes, value, lower, inclusive, moved, 0), true);
  }

  private static RangeBound rule(
      DataType codes, Expression value, boolean lower, boolean inclusive, Number moved,
      long offset) {
    int scale = Types.scale(value.dataType());
    return RangeBound.of(lower, inclusive, moved, scale, codes, offset);
  }

  /** A width in units of the point's last digit; the bits of a double. */
  private static Number width(JsonNode how, String name, Expression point) {
    return Types.isFloating(point.dataType())
        ? (Number) Double.longBitsToDouble(how.path(name).asLong())
        : new BigDecimal(how.path(name).asText())
            .scaleByPowerOfTen(-Types.scale(point.dataType()));
  }
}
