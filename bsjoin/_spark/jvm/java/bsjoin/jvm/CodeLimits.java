package bsjoin.jvm;

import java.io.Serializable;

/** Codes of rows for which a bound holds: of others, what the bound is about has overflowed. */
final class CodeLimits implements Serializable {
  static final CodeLimits NONE = new CodeLimits(Long.MIN_VALUE, Long.MAX_VALUE);

  final long least;
  final long greatest;

  CodeLimits(long least, long greatest) {
    this.least = least;
    this.greatest = greatest;
  }

  /** Those within both limits. */
  CodeLimits and(CodeLimits other) {
    return new CodeLimits(Math.max(least, other.least), Math.min(greatest, other.greatest));
  }

  /** Whether all codes are within the limits. */
  boolean contain(long from, long to) {
    return from >= least && to <= greatest;
  }

  @Override
  public boolean equals(Object other) {
    return other instanceof CodeLimits && least == ((CodeLimits) other).least
        && greatest == ((CodeLimits) other).greatest;
  }

  @Override
  public int hashCode() {
    return Long.hashCode(least) + 31 * Long.hashCode(greatest);
  }
}
