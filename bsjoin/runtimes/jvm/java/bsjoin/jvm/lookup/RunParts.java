package bsjoin.jvm.lookup;

import bsjoin.jvm.storage.AggregateTree;
import bsjoin.jvm.storage.AggregateTree.Part;
import bsjoin.jvm.storage.Version;

/**
 * What there is of a column in the run of rows that was asked for last. All functions of the column have
 * it from here, so that a run is read once for all of them.
 *
 * <p>Which parts they need it learns when they ask: from the second run on, the first one that asks
 * finds those of the others, too. In the first run all are found anew with each further one.
 */
final class RunParts {
  private final Columns columns;
  private final int number; // of the column
  private final long[] values = new long[AggregateTree.AT_ONCE];
  private final long[] found = new long[Part.values().length];
  private AggregateTree tree; // of the run's segment
  private long reference = Version.MISSING;
  private long rows;
  private int needed; // the bits of the parts
  private int known; // of the run

  RunParts(Columns columns, int number) {
    this.columns = columns;
    this.number = number;
  }

  /** Take a run; its tree, or null as {@link Columns#tree}. */
  AggregateTree at(long first, long count) {
    if (reference != first || rows != count) {
      tree = columns.tree(number, first);
      reference = first;
      rows = count;
      known = 0;
    }
    return tree;
  }

  /** A part of the run. */
  long of(Part part) {
    int bit = 1 << part.ordinal();
    if ((known & bit) == 0) {
      needed |= bit;
      int first = Version.row(reference);
      tree.of(needed, first, (int) (first + rows), values, found);
      known = needed;
    }
    return found[part.ordinal()];
  }
}
