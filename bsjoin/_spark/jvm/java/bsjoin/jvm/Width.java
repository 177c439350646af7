package bsjoin.jvm;

import com.fasterxml.jackson.databind.JsonNode;
import java.io.Serializable;
import java.math.BigInteger;

/**
 * Moves a point by the width of a band or a tolerance: {@code moved} of {@code
 * bsjoin/worker/probes.py}.
 *
 * <p>Where the sum is, is a code and a shift: -1 or 1 just below or above that code, which is between
 * two codes or beyond the limits of 64 bits, else 0. Doubles are added as Spark adds them. A point
 * may be in units that are finer than those of the codes.
 */
final class Width implements Serializable {
  private final boolean floating;
  private final double delta;
  private final boolean negative;
  private final boolean endless; // every sum is beyond the limits
  private final long size; // of the step, unsigned
  private final boolean further; // and by a fraction of a unit of the point
  private final long rest; // and before that by so many units of the point
  private final long unit; // how many units of the point a code is

  /**
   * A width as the plan has it.
   *
   * @param node the bits of a double; or an integer, the step in units of the codes, the rest in
   *     units of the point, and whether it goes further by a fraction of one
   * @param unit how many units of the point a code is
   */
  Width(JsonNode node, long unit) {
    floating = node.has("bits");
    delta = Double.longBitsToDouble(node.path("bits").asLong());
    BigInteger step = node.path("step").bigIntegerValue();
    negative = step.signum() < 0;
    endless = step.abs().bitLength() > Long.SIZE;
    size = step.abs().longValue();
    rest = node.path("rest").asLong();
    further = node.path("further").asBoolean();
    this.unit = unit;
  }

  /** The code at, or beside, the sum. */
  long code(long point) {
    if (floating) {
      return Code.of(moved(Code.toDouble(point)));
    }
    long code = whole(point);
    if (isBeyond(code)) {
      return negative ? Long.MIN_VALUE : Long.MAX_VALUE;
    }
    return negative ? code - size : code + size;
  }

  /** The sum, of doubles. */
  double moved(double point) {
    return point + delta;
  }

  /** On which side of its code the sum is. */
  int shift(long point) {
    if (floating) {
      return 0;
    }
    long code = whole(point);
    if (isBeyond(code)) {
      return negative ? -1 : 1;
    }
    return further || unit > 1 && point + rest != code * unit ? 1 : 0;
  }

  /** The code at or below a point that is moved by the rest. */
  private long whole(long point) {
    return unit == 1 ? point : Math.floorDiv(point + rest, unit);
  }

  private boolean isBeyond(long code) {
    long room = negative ? code - Long.MIN_VALUE : Long.MAX_VALUE - code;
    return endless || Long.compareUnsigned(size, room) > 0;
  }
}
