package bsjoin.jvm;

/** Reads a column in many rows before they are used, so that they are in the CPU's caches then. */
final class ReadAhead {
  private final Columns columns;
  private final int number;

  ReadAhead(Columns columns, int number) {
    this.columns = columns.open();
    this.number = number;
  }

  /** Read it in the rows of references; what is returned says nothing. */
  long read(long[] references, int count) {
    long sum = 0;
    for (int i = 0; i < count; i++) {
      Column column = columns.column(number, references[i]);
      sum += column == null ? 0 : column.near(Columns.row(references[i]));
    }
    for (int i = 0; i < count; i++) {
      Column column = columns.column(number, references[i]);
      sum += column == null ? 0 : column.far(Columns.row(references[i]));
    }
    return sum;
  }
}
