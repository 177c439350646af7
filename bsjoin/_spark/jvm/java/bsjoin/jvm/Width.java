package bsjoin.jvm;

import com.fasterxml.jackson.databind.JsonNode;
import java.io.Serializable;
import java.math.BigInteger;

/**
 * Moves a point by the width of a band or a tolerance: {@code moved} of {@code
 * bsjoin/worker/probes.py}.
 *
 * <p>Where the sum is, is a code and a shift: -1 or 1 just below or above that code, which is between
 * two codes or beyond the limits of 64 bits, else 0. Doubles are added as Spark adds them.
 */
final class Width implements Serializable {
  private final boolean floating;
  private final double delta;
  private final boolean negative;
  private final boolean endless; // every sum is beyond the limits
  private final long size; // of the step, unsigned
  private final int further; // 1: and by a fraction of a unit

  /**
   * A width as the plan has it.
   *
   * @param node the bits of a double; or an integer, the step, and whether it goes further by a
   *     fraction
   */
  Width(JsonNode node) {
    floating = node.has("bits");
    delta = Double.longBitsToDouble(node.path("bits").asLong());
    BigInteger step = node.path("step").bigIntegerValue();
    negative = step.signum() < 0;
    endless = step.abs().bitLength() > Long.SIZE;
    size = step.abs().longValue();
    further = node.path("further").asBoolean() ? 1 : 0;
  }

  /** The code at, or beside, the sum. */
  long code(long point) {
    if (floating) {
      return Code.of(moved(Code.toDouble(point)));
    }
    if (isBeyond(point)) {
      return negative ? Long.MIN_VALUE : Long.MAX_VALUE;
    }
    return negative ? point - size : point + size;
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
    return isBeyond(point) ? negative ? -1 : 1 : further;
  }

  private boolean isBeyond(long point) {
    long room = negative ? point - Long.MIN_VALUE : Long.MAX_VALUE - point;
    return endless || Long.compareUnsigned(size, room) > 0;
  }
}
