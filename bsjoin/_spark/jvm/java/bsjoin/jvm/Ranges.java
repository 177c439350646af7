package bsjoin.jvm;

import java.math.BigDecimal;
import java.math.BigInteger;
import java.math.RoundingMode;
import java.util.ArrayList;
import java.util.List;
import org.apache.spark.sql.catalyst.expressions.And;
import org.apache.spark.sql.catalyst.expressions.EqualTo;
import org.apache.spark.sql.catalyst.expressions.Expression;
import org.apache.spark.sql.catalyst.expressions.GreaterThanOrEqual;
import org.apache.spark.sql.catalyst.expressions.IsNotNull;
import org.apache.spark.sql.catalyst.expressions.LessThanOrEqual;
import org.apache.spark.sql.catalyst.expressions.Literal;
import org.apache.spark.sql.catalyst.expressions.Or;
import org.apache.spark.sql.types.DataType;
import org.apache.spark.sql.types.DataTypes;

/**
 * Conditions on the range columns of a table, which its range index answers.
 *
 * <p>One bound below and one above the points, or the starts of intervals, are answered, and one
 * below the ends. A condition is dropped where the index finds exactly the rows that Spark would;
 * else it is checked for each row that is found.
 */
final class Ranges {
  private final IndexJoin join;
  private final Manifest manifest;
  private RangeCondition lower;
  private RangeCondition upper;
  private RangeCondition last; // a bound below the ends
  private Expression limits; // under which no sum of the column of the others overflows; or null

  private Ranges(IndexJoin join) {
    this.join = join;
    manifest = join.manifest;
  }

  /**
   * How a join's rows are found by the range index: its {@link IndexJoin#residual} has the
   * conditions beside the equal keys; null if it answers none of them.
   *
   * @param join a join with a table whose range columns have codes
   */
  static Search of(IndexJoin join) {
    return new Ranges(join).search();
  }

  private Search search() {
    for (Expression one : join.residual) {
      for (RangeCondition found : RangeCondition.of(one, join)) {
        if (found.place == 1) {
          last = found.lower ? better(last, found) : last;
        } else if (found.lower && !found.orNull) {
          lower = better(lower, found);
        } else if (!found.orNull) {
          upper = better(upper, found);
        }
      }
    }
    if (lower == null && upper == null) {
      return null; // rows without a point are not in the index
    }
    limits = and(within(lower), within(upper));
    List<Expression> residual = new ArrayList<>();
    for (Expression one : join.residual) {
      Expression rest = rest(one);
      if (rest != null) {
        residual.add(rest);
      }
    }
    List<Expression> arguments = new ArrayList<>();
    arguments.add(argument(lower, Long.MIN_VALUE));
    arguments.add(argument(upper, Long.MAX_VALUE));
    if (last != null) {
      arguments.add(argument(last, Long.MIN_VALUE));
    }
    CodeLimits points = codeLimits(lower).and(codeLimits(upper));
    Finder finder =
        last == null
            ? new PointFinder(join, points)
            : new IntervalFinder(join, points, codeLimits(last), !areNotEmpty());
    List<Expression> answered = new ArrayList<>();
    for (RangeCondition bound : new RangeCondition[] {lower, upper, last}) {
      if (bound != null && !answered.contains(bound.whole)) {
        answered.add(bound.whole);
      }
    }
    return new Search(finder, arguments, residual, answered);
  }

  /** Of two bounds in the same direction one that the stream's row decides. */
  private static RangeCondition better(RangeCondition one, RangeCondition other) {
    return one == null || one.value.references().isEmpty() ? other : one;
  }

  /** What is left to check of a condition; null if nothing is. */
  private Expression rest(Expression condition) {
    boolean isKnown =
        condition instanceof IsNotNull
            && manifest.rangeNames.get(0).equals(join.column(((IsNotNull) condition).child()));
    if (isKnown) {
      return null; // in the index every row has a point
    }
    Expression guard = null;
    boolean answered = false;
    boolean isLimited = false;
    boolean isBoth = isOf(lower, condition) && isOf(upper, condition);
    for (RangeCondition bound : new RangeCondition[] {lower, upper, last}) {
      if (!isOf(bound, condition)) {
        continue;
      }
      boolean isExact =
          bound == last ? isExactEnd() : last == null || limits == null; // see IntervalFinder
      if (bound.isApproximate || condition instanceof EqualTo && !isBoth || !isExact) {
        return condition;
      }
      answered = true;
      isLimited |= bound != last;
      if (!StreamValue.isSafe(bound.value)) {
        Expression one = StreamValue.guard(bound.value);
        if (one == null) {
          return condition;
        }
        guard = and(guard, one);
      }
    }
    if (!answered) {
      return condition;
    }
    if (isOf(last, condition) && !last.orNull && mayBeNull(last)) {
      return new IsNotNull(last.column.column);
    }
    guard = isLimited ? and(guard, limits) : guard;
    return guard == null ? null : new Or(guard, condition);
  }

  private static boolean isOf(RangeCondition bound, Expression condition) {
    return bound != null && bound.whole == condition;
  }

  private static Expression and(Expression one, Expression other) {
    return one == null ? other : other == null ? one : new And(one, other);
  }

  /** The condition that a column's value is one whose sum does not overflow; null if all are. */
  private static Expression within(RangeCondition bound) {
    if (bound == null) {
      return null;
    }
    MovedColumn column = bound.column;
    Expression found = null;
    if (column.least != null) {
      found = new GreaterThanOrEqual(column.column, literal(column, column.least));
    }
    if (column.greatest != null) {
      found = and(found, new LessThanOrEqual(column.column, literal(column, column.greatest)));
    }
    return found;
  }

  private static Literal literal(MovedColumn column, BigDecimal value) {
    return StreamValue.literal(value.longValueExact(), column.column.dataType());
  }

  /** Whether the index finds exactly the rows whose ends meet the condition. */
  private boolean isExactEnd() {
    // The greatest code may be that of an end, too, where it is looked for as that of a missing one.
    boolean isAmbiguous =
        last.orNull && isClosedRight() && MovedColumn.isFull(codes(last))
            && (last.strict || last.value.nullable());
    boolean isGuarded =
        last.column.isLimited()
            || !StreamValue.isSafe(last.value) && !last.orNull && mayBeNull(last);
    return areNotEmpty() && !isAmbiguous && !isGuarded;
  }

  /** Whether intervals that are empty, to the index, do not meet the conditions. */
  private boolean areNotEmpty() {
    if (upper == null || last == null || last.isApproximate
        || upper.column.moved.signum() != 0 || last.column.moved.signum() != 0
        || !upper.value.semanticEquals(last.value)) {
      return false;
    }
    // A point is between the ends: the start is at or before it, and so before the end.
    boolean hasLength = upper.strict || last.strict || manifest.closed.equals("both");
    boolean startsAtEnd = manifest.closed.equals("right") || manifest.closed.equals("neither");
    return hasLength
        && (!startsAtEnd || upper.strict || !last.orNull || !MovedColumn.isFull(codes(upper)));
  }

  private boolean mayBeNull(RangeCondition bound) {
    int place = manifest.place(manifest.rangeNames.get(bound.place));
    return place < 0 || manifest.isNullable(place);
  }

  private boolean isClosedRight() {
    return manifest.closed.equals("both") || manifest.closed.equals("right");
  }

  private DataType codes(RangeCondition bound) {
    return manifest.rangeTypes.get(bound.place);
  }

  private Expression argument(RangeCondition bound, long none) {
    if (bound == null) {
      return new Literal(none, DataTypes.LongType);
    }
    // The index has the last code of an interval, which is before an end that is not part of it.
    long offset = bound == last && !isClosedRight() ? -1 : 0;
    boolean open = bound == last && bound.orNull || bound.column.isLimited();
    CodeBound rule = bound.bound(codes(bound), offset, open);
    return new Bound(bound.value, rule, StreamValue.isSafe(bound.value));
  }

  /** The codes of the table's rows for which a bound may be used. */
  private CodeLimits codeLimits(RangeCondition bound) {
    if (bound == null || !bound.column.isLimited()) {
      return CodeLimits.NONE;
    }
    int scale = MovedColumn.scale(codes(bound));
    long ahead = bound == last && !isClosedRight() ? 1 : 0;
    return new CodeLimits(
        code(bound.column.least, scale, RoundingMode.CEILING, Long.MIN_VALUE, ahead),
        code(bound.column.greatest, scale, RoundingMode.FLOOR, Long.MAX_VALUE, ahead));
  }

  private static long code(
      BigDecimal value, int scale, RoundingMode mode, long otherwise, long ahead) {
    if (value == null) {
      return otherwise;
    }
    BigInteger code = value.scaleByPowerOfTen(scale).setScale(0, mode).toBigInteger();
    return code.bitLength() < Long.SIZE ? code.longValue() - ahead : otherwise;
  }
}
