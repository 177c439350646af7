package bsjoin.jvm.planner;

import bsjoin.jvm.lookup.Bound;
import bsjoin.jvm.storage.Dimension;
import bsjoin.jvm.storage.Types;
import java.math.BigDecimal;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Objects;
import java.util.stream.Stream;
import org.apache.spark.sql.catalyst.expressions.Alias;
import org.apache.spark.sql.catalyst.expressions.And;
import org.apache.spark.sql.catalyst.expressions.EqualTo;
import org.apache.spark.sql.catalyst.expressions.Expression;
import org.apache.spark.sql.catalyst.expressions.IsNotNull;
import org.apache.spark.sql.catalyst.expressions.Not;
import org.apache.spark.sql.catalyst.expressions.Or;

/**
 * The bounds that a join's conditions are of one range of the table: one below and one above the
 * points, or the starts of intervals, and one below the ends.
 */
final class DimensionBounds {
  private final IndexJoin join;
  private final Dimension dimension;
  private RangeCondition lower;
  private RangeCondition upper;
  private RangeCondition last; // a bound below the ends
  private Expression isWithin; // no sum of the column of points or starts overflows; null: never
  private final Map<RangeCondition, Expression> hasValue = new HashMap<>(); // if it may have none

  /** The codes that the bounds hold for, as soon as there are {@link #arguments}. */
  final long[] limits = RangeLookup.noLimits(1);

  private DimensionBounds(IndexJoin join, Dimension dimension) {
    this.join = join;
    this.dimension = dimension;
  }

  /** The bounds of a range; null if there is none of its points or starts, or these may be null. */
  static DimensionBounds of(IndexJoin join, Dimension dimension) {
    DimensionBounds found = new DimensionBounds(join, dimension);
    boolean isKnown = join.hasPoints(dimension);
    for (Expression condition : join.residual) {
      for (RangeCondition one : RangeCondition.of(condition, join, dimension)) {
        isKnown |= one.place() == 0 && !one.orNull() && !one.orAny();
        found.add(one);
      }
    }
    boolean isBound = found.lower != null || found.upper != null;
    return isBound && isKnown ? found : null; // rows without a point are not in the index
  }

  private void add(RangeCondition found) {
    if (found.place() == 1) {
      last = found.lower() ? better(last, found) : last;
    } else if (found.lower() && !found.orNull()) {
      lower = better(lower, found);
    } else if (!found.orNull()) {
      upper = better(upper, found);
    }
  }

  /** Of two bounds in the same direction one that the stream's row decides, and always is one. */
  private static RangeCondition better(RangeCondition one, RangeCondition other) {
    return one == null || one.value().references().isEmpty() || one.orAny() ? other : one;
  }

  private Stream<RangeCondition> bounds() {
    return Stream.of(lower, upper, last).filter(Objects::nonNull);
  }

  /** The conditions that the bounds are. */
  Stream<Expression> conditions() {
    return bounds().map(RangeCondition::whole);
  }

  /** Whether intervals are searched by their ends, too. */
  boolean isByEnds() {
    return last != null;
  }

  /** Whether rows match whose intervals are empty, to the index. */
  boolean mayMatchEmpty() {
    return dimension.isInterval() && !areNotEmpty();
  }

  /** What a finder gets. */
  List<Expression> arguments(List<Alias> computed) {
    List<Expression> found = new ArrayList<>();
    for (RangeCondition bound : new RangeCondition[] {lower, upper, last}) {
      found.add(argument(bound, computed));
    }
    return RangeLookup.bounds(dimension.type(), found.get(0), found.get(1), found.get(2));
  }

  private Expression argument(RangeCondition condition, List<Alias> computed) {
    if (condition == null) {
      return null;
    }
    // The index has the last code of an interval, which is before an end that is not part of it.
    long ahead = condition == last && !dimension.isClosedRight() ? 1 : 0;
    RangeColumn column = condition.column();
    if (column.isLimited) {
      limit(condition == last ? 2 : 0, column, Types.scale(condition.codes()), ahead);
      isWithin = condition == last ? isWithin : and(isWithin, column.isWithin());
    }
    boolean open = condition == last && condition.orNull() || column.isLimited;
    Bound bound = condition.bound(-ahead, open);
    if (Bound.isSafe(condition.value())) {
      return bound;
    }
    Expression code = Search.column(bound, computed);
    hasValue.put(condition, new Not(new EqualTo(code, bound.limit())));
    return code;
  }

  /** Note of which codes a bound may be used: those of the values whose sum does not overflow. */
  private void limit(int at, RangeColumn column, int scale, long ahead) {
    BigDecimal least = column.least.scaleByPowerOfTen(scale);
    BigDecimal greatest = column.greatest.scaleByPowerOfTen(scale);
    limits[at] = Math.max(limits[at], least.longValueExact() - ahead);
    limits[at + 1] = Math.min(limits[at + 1], greatest.longValueExact() - ahead);
  }

  /** Add what is left of a condition for rows that the bounds have found. */
  void addRest(Expression condition, List<Expression> residual) {
    Expression exact = null; // where it holds the index has found exactly the rows that match
    int used = 0;
    boolean isChecked = false;
    for (RangeCondition bound : bounds().toList()) {
      if (bound.whole() == condition) {
        used++;
        isChecked |= bound.isApproximate() || bound == last && !isExactEnd();
        exact = and(exact, hasValue.get(bound));
        exact = bound == last ? exact : and(exact, isWithin);
      }
    }
    if (used < (condition instanceof EqualTo ? 2 : 1) || isChecked) {
      residual.add(condition);
      return;
    }
    if (last != null && last.whole() == condition && !last.orNull()
        && join.mayHaveNulls(dimension.names().get(1))) {
      residual.add(new IsNotNull(last.column().column));
    }
    if (exact != null) {
      residual.add(new Or(exact, condition));
    }
  }

  private static Expression and(Expression one, Expression other) {
    return one == null ? other : other == null ? one : new And(one, other);
  }

  /** Whether the index finds exactly the rows whose ends meet the condition. */
  private boolean isExactEnd() {
    // The greatest code may be that of an end, too, where it is looked for as that of a missing one.
    boolean isAmbiguous =
        last.orNull() && dimension.isClosedRight() && Types.isFull(last.codes())
            && (last.strict() || last.value().nullable());
    return areNotEmpty() && !isAmbiguous && !last.column().isLimited;
  }

  /** Whether intervals that are empty, to the index, do not meet the conditions. */
  private boolean areNotEmpty() {
    if (upper == null || last == null || upper.orAny() || last.isApproximate()
        || upper.column().moved.signum() != 0 || last.column().moved.signum() != 0
        || !upper.value().semanticEquals(last.value())) {
      return false;
    }
    // A point is between the ends: the start is at or before it, and so before the end.
    String closed = dimension.closed();
    boolean hasLength = upper.strict() || last.strict() || closed.equals("both");
    boolean startsAtEnd = closed.equals("right") || closed.equals("neither");
    return hasLength
        && (!startsAtEnd || upper.strict() || !last.orNull() || !Types.isFull(upper.codes()));
  }
}
