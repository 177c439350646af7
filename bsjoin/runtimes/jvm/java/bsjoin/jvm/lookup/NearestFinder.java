package bsjoin.jvm.lookup;

import bsjoin.jvm.storage.Code;
import bsjoin.jvm.storage.Ranks;
import bsjoin.jvm.storage.Segment;
import java.math.BigInteger;
import java.util.Arrays;
import org.apache.spark.sql.catalyst.InternalRow;

/**
 * As-of: finds of the rows of a key whose points are between two codes the last ones, the first ones,
 * or the nearest ones to a point, nearest first: {@code bsjoin/index/nearest.py}. Rows with equal
 * points come in the table's order.
 *
 * <p>It steps outward from the point: on the side before it from one point to the one before, on the
 * side after it from row to row, and takes of both the nearer one.
 */
public final class NearestFinder extends BoundsFinder {
  private final boolean isLast; // the last rows are found
  private final boolean isFirst;
  private final boolean exact; // rows at the point itself may be the nearest ones
  private final boolean floating; // codes are those of doubles, which have an order but no distance
  private final BigInteger units; // how many units of the point a code, or a number, is
  private final long unit; // the same, if points have 64 bits
  private final boolean isWide; // points have more than 64 bits
  private final int most; // rows that are found
  private transient long low;
  private transient long high;
  private transient long point;
  private transient BigInteger wide; // the point, if it has more than 64 bits
  private transient int before; // the next row of the side before the point; -1 if there is none
  private transient int firstBefore; // the first one with the same point
  private transient int after; // the next row of the other side; -1: where those before end
  private transient boolean isAfter; // where the row is from that was found last
  private transient int count; // of the rows that were found

  /** The direction is {@code backward}, {@code forward} or {@code nearest}. */
  public NearestFinder(
      Searched rows, String direction, boolean exact, boolean floating, BigInteger unit,
      boolean isWide, int most) {
    super(rows, Arrays.asList(direction, exact, floating, unit, isWide, most).toString());
    isLast = direction.equals("backward");
    isFirst = direction.equals("forward");
    this.exact = exact;
    this.floating = floating;
    units = unit;
    this.unit = unit.longValue();
    this.isWide = isWide;
    this.most = most;
  }

  @Override
  boolean isUnique() {
    return most == 1 || super.isUnique();
  }

  @Override
  long most() {
    return Math.min(most, super.most());
  }

  @Override
  int searched() {
    return isLast ? 1 : isFirst ? 0 : unit == 1 && !isWide ? 2 : -1;
  }

  @Override
  boolean isAbove() {
    return isLast;
  }

  @Override
  long sought(long low, long high, long point) {
    return isLast ? high + 1 : isFirst ? low : point;
  }

  @Override
  long last(byte[] point, Segment segment) {
    wide = isWide ? Ranks.number(point) : null;
    return 0;
  }

  /** The first row by a point that has more than 64 bits: {@link Ranks#text}, and one byte. */
  public long first(long search, long low, long high, byte[] point) {
    long found = firstOfKey(search);
    wide = Ranks.number(point);
    return found < 0 ? NONE : first(found, version().segment(found), low, high, 0);
  }

  @Override
  long bounded(Segment segment, long low, long high, long point) {
    this.low = low;
    this.high = high;
    this.point = point;
    count = 1;
    before = -1;
    after = end;
    if (isLast) {
      int above = high == Long.MAX_VALUE ? end : notBelow(points, high + 1, begin, end);
      before = points.firstOfEquals(above - 1, begin, end);
    } else if (isFirst) {
      after = notBelow(points, low, begin, end);
    } else if (!floating || !Double.isNaN(Code.toDouble(point))) { // which has no distance
      start();
    }
    firstBefore = before;
    return nearer();
  }

  /** Find the rows on both sides of the point. */
  private void start() {
    long code = unit == 1 ? point : Math.floorDiv(point, unit);
    boolean between = code * unit != point;
    boolean isBelowAll = false;
    if (wide != null) {
      BigInteger[] parts = RangeBound.divided(wide, units);
      boolean rests = parts[1].signum() != 0;
      if (ranks != null) {
        byte[] text = Ranks.text(parts[0], rests ? 1 : 0);
        code = ranks.code(text, text.length);
        between = code % 2 == 0;
      } else {
        code = RangeBound.clamped(parts[0]);
        isBelowAll = parts[0].compareTo(BigInteger.valueOf(code)) < 0;
        between = rests || parts[0].compareTo(BigInteger.valueOf(code)) > 0;
      }
    }
    int at =
        isBelowAll ? begin
            : between ? points.above(code, begin, end)
            : notBelow(points, code, begin, end);
    boolean met = !between && !isBelowAll && at < end && points.value(at) == code;
    if (met && exact) {
      before = at;
      after = -1;
      return;
    }
    before = points.firstOfEquals(at - 1, begin, end);
    after = met ? points.aboveFrom(code, at, begin, end) : at;
  }

  /** The next row, in the order of nearness. */
  @Override
  public long next() {
    if (count == most) {
      return NONE;
    }
    count++;
    if (isAfter) {
      after++;
    } else if (before + 1 < end && points.value(before + 1) == points.value(before)) {
      before++;
    } else {
      after = after < 0 ? before + 1 : after;
      before = firstBefore = points.firstOfEquals(firstBefore - 1, begin, end);
    }
    return nearer();
  }

  private long nearer() {
    boolean isBefore = before >= 0 && isWithin(before);
    isAfter = after >= 0 && after < end && isWithin(after)
        && !(isBefore && !isNearer(points.value(after), points.value(before)));
    return isAfter ? key + after : isBefore ? key + before : NONE;
  }

  private boolean isWithin(int row) {
    long value = points.value(row);
    return value >= low && value <= high;
  }

  /** Whether a later row is nearer than an earlier one. */
  private boolean isNearer(long later, long earlier) {
    if (wide != null) {
      return number(later).subtract(wide).compareTo(wide.subtract(number(earlier))) < 0;
    }
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

  /** What a code is the code of, in units of the point. */
  private BigInteger number(long code) {
    return (ranks == null ? BigInteger.valueOf(code) : ranks.number(code)).multiply(units);
  }

  @Override
  long first(InternalRow arguments) {
    return isRanked() || !isWide
        ? super.first(arguments)
        : first(
            arguments.getLong(0), argument(arguments, 0), argument(arguments, 1),
            bound(arguments, 2));
  }
}
