package bsjoin.jvm.lookup;

import bsjoin.jvm.storage.AggregateTree;
import bsjoin.jvm.storage.Version;

/** Reads what aggregates a column at the ends of many runs of rows before it is used: {@link ReadAhead}. */
final class RunAhead {
  private final Columns columns;
  private final int number;

  RunAhead(Columns columns, int number) {
    this.columns = columns;
    this.number = number;
  }

  /** Read it in the rows of references; what is returned says nothing. */
  long read(long[] references, int count) {
    long sum = 0;
    int segment = -1; // that the tree is of
    AggregateTree tree = null;
    for (int i = 0; i < count; i++) {
      long reference = references[i];
      if (reference >= 0) {
        if (segment != Version.segmentNumber(reference)) {
          segment = Version.segmentNumber(reference);
          tree = columns.tree(number, reference);
        }
        sum += tree == null ? 0 : tree.touch(Columns.row(reference));
      }
    }
    return sum;
  }
}
