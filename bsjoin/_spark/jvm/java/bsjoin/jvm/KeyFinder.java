package bsjoin.jvm;

import org.apache.spark.sql.catalyst.InternalRow;

/** Finds the rows with equal keys. */
public final class KeyFinder extends Finder {
  private final boolean isUnique;

  KeyFinder(IndexJoin join) {
    super(join);
    isUnique = join.manifest.longestRun <= 1;
  }

  @Override
  boolean isUnique() {
    return isUnique;
  }

  public long first(long search) {
    long found = firstOfKey(search);
    return isUnique || found < 0
        ? found
        : rows(found, version().segment(found).count(Version.row(found)));
  }

  @Override
  long first(InternalRow arguments) {
    return first(arguments.getLong(0));
  }
}
