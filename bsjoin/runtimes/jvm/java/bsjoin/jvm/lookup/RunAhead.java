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

  /** Read it in the first, or the last, rows of runs; what is returned says nothing. */
  long read(long[] references, int count, boolean isLast) {
    long sum = 0;
    for (int first = 0, stop; first < count; first = stop) {
      stop = first + 1; // behind those of one segment
      if (references[first] >= 0) {
        int segment = Version.segmentNumber(references[first]);
        while (stop < count
            && references[stop] >= 0
            && Version.segmentNumber(references[stop]) == segment) {
          stop++;
        }
        AggregateTree tree = columns.tree(number, references[first]);
        sum += tree == null ? 0 : tree.touch(references, first, stop, isLast);
      }
    }
    return sum;
  }
}
