package bsjoin.jvm.lookup;

import bsjoin.jvm.storage.AggregateTree;
import bsjoin.jvm.storage.AggregateTree.Part;

/**
 * What there is of a column in the run of rows that was asked for last. All functions of the column have
 * it from here, so that a run is read once for all of them.
 *
 * <p>Which parts they need it learns when they ask: from the second run on, the first one that asks
 * finds those of the others, too. In the first run all are found anew with each further one.
 */
final class RunParts {
  private final long[] values = new long[AggregateTree.AT_ONCE];
  private final long[] found = new long[Part.values().length];
  private AggregateTree tree;
  private int first;
  private int stop;
  private int needed; // the bits of the parts
  private int known; // of the run

  /**
   * A part of a run.
   *
   * @param of the tree of the column in the run's segment
   * @param begin the first row
   * @param end one past the last row
   */
  long of(AggregateTree of, Part part, int begin, int end) {
    int bit = 1 << part.ordinal();
    if (tree != of || first != begin || stop != end) {
      tree = of;
      first = begin;
      stop = end;
      known = 0;
    }
    if ((known & bit) == 0) {
      needed |= bit;
      tree.of(needed, first, stop, values, found);
      known = needed;
    }
    return found[part.ordinal()];
  }
}
