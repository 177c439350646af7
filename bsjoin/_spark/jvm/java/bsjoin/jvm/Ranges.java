package bsjoin.jvm;

/** Conditions on the range columns of a table, which its range index answers. */
final class Ranges {
  private Ranges() {}

  /**
   * How a join's rows are found by the range index: its {@link IndexJoin#residual} has the
   * conditions beside the equal keys; null if it answers none of them.
   */
  static Search of(IndexJoin join) {
    return null;
  }
}
