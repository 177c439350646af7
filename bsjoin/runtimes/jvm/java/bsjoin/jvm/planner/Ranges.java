package bsjoin.jvm.planner;

import bsjoin.jvm.lookup.Bound;
import bsjoin.jvm.lookup.Finder;
import bsjoin.jvm.lookup.RangeFinder;
import bsjoin.jvm.storage.Manifest;
import bsjoin.jvm.storage.Types;
import java.math.BigDecimal;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import org.apache.spark.sql.catalyst.expressions.Alias;
import org.apache.spark.sql.catalyst.expressions.And;
import org.apache.spark.sql.catalyst.expressions.EqualTo;
import org.apache.spark.sql.catalyst.expressions.Expression;
import org.apache.spark.sql.catalyst.expressions.IsNotNull;
import org.apache.spark.sql.catalyst.expressions.Not;
import org.apache.spark.sql.catalyst.expressions.Or;
import org.apache.spark.sql.types.DataType;

/**
 * Conditions on the range columns of a table, which its range index answers.
 *
 * <p>One bound below and one above the points, or the starts of intervals, are answered, and one
 * below the ends. A condition is dropped where the index finds exactly the rows that Spark would;
 * else it is checked for each row that is found.
 */
public final class Ranges {
  private final IndexJoin join;
  private final Manifest manifest;
  private RangeCondition lower;
  private RangeCondition upper;
  private RangeCondition last; // a bound below the ends
  private Expression isWithin; // no sum of the column of points or starts overflows; null: never
  private final List<Alias> computed = new ArrayList<>();
  private final Map<RangeCondition, Expression> hasValue = new HashMap<>(); // if it may have none
  private final long[] limits = RangeLookup.noLimits();

  private Ranges(IndexJoin join) {
    this.join = join;
    manifest = join.manifest;
  }

  /**
   * How a join's rows are found by the range index: its {@link IndexJoin#residual} has the
   * conditions beside the equal keys; null if it answers none of them.
   *
   * @param join a join with a table that is sorted by range columns
   */
  static Search of(IndexJoin join) {
    return new Ranges(join).search();
  }

  private Search search() {
    for (Expression one : join.residual) {
      for (RangeCondition found : RangeCondition.of(one, join)) {
        if (found.place() == 1) {
          last = found.lower() ? better(last, found) : last;
        } else if (found.lower() && !found.orNull()) {
          lower = better(lower, found);
        } else if (!found.orNull()) {
          upper = better(upper, found);
        }
      }
    }
    if (lower == null && upper == null) {
      return null; // rows without a point are not in the index
    }
    Expression[] bounds = {argument(lower), argument(upper), argument(last)};
    List<Expression> residual = new ArrayList<>();
    for (Expression one : join.residual) {
      if (!join.isPointKnown(one)) {
        addRest(one, residual);
      }
    }
    List<Expression> answered = new ArrayList<>();
    for (RangeCondition bound : new RangeCondition[] {lower, upper, last}) {
      if (bound != null && !answered.contains(bound.whole())) {
        answered.add(bound.whole());
      }
    }
    boolean withEmpty = last != null && !areNotEmpty();
    Finder finder = new RangeFinder(join.searched(), last != null, limits, withEmpty, false);
    DataType codes = RangeLookup.type(join);
    List<Expression> arguments = RangeLookup.bounds(codes, bounds[0], bounds[1], bounds[2]);
    return new Search(finder, arguments, residual, answered, computed);
  }

  /** Of two bounds in the same direction one that the stream's row decides. */
  private static RangeCondition better(RangeCondition one, RangeCondition other) {
    return one == null || one.value().references().isEmpty() ? other : one;
  }

  private Expression argument(RangeCondition condition) {
    if (condition == null) {
      return null;
    }
    // The index has the last code of an interval, which is before an end that is not part of it.
    long ahead = condition == last && !isClosedRight() ? 1 : 0;
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

  private void addRest(Expression condition, List<Expression> residual) {
    Expression exact = null; // where it holds the index has found exactly the rows that match
    int used = 0;
    boolean isChecked = false;
    for (RangeCondition bound : new RangeCondition[] {lower, upper, last}) {
      if (bound != null && bound.whole() == condition) {
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
    if (last != null && last.whole() == condition && !last.orNull() && mayBeNull(last)) {
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
        last.orNull() && isClosedRight() && Types.isFull(last.codes())
            && (last.strict() || last.value().nullable());
    return areNotEmpty() && !isAmbiguous && !last.column().isLimited;
  }

  /** Whether intervals that are empty, to the index, do not meet the conditions. */
  private boolean areNotEmpty() {
    if (upper == null || last == null || last.isApproximate()
        || upper.column().moved.signum() != 0 || last.column().moved.signum() != 0
        || !upper.value().semanticEquals(last.value())) {
      return false;
    }
    // A point is between the ends: the start is at or before it, and so before the end.
    boolean hasLength = upper.strict() || last.strict() || manifest.closed.equals("both");
    boolean startsAtEnd = manifest.closed.equals("right") || manifest.closed.equals("neither");
    return hasLength
        && (!startsAtEnd || upper.strict() || !last.orNull() || !Types.isFull(upper.codes()));
  }

  private boolean mayBeNull(RangeCondition bound) {
    int place = manifest.place(manifest.rangeNames.get(bound.place()));
    return place < 0 || manifest.isNullable(place);
  }

  private boolean isClosedRight() {
    return manifest.closed.equals("both") || manifest.closed.equals("right");
  }
}
