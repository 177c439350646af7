package bsjoin.jvm.lookup;

import bsjoin.jvm.storage.Version;
import org.apache.spark.sql.catalyst.InternalRow;

/** Finds the rows with equal keys. */
public final class KeyFinder extends Finder {
  public KeyFinder(Searched rows) {
    super(rows, "");
  }

  public long first(long search) {
    long found = firstOfKey(search);
    return isUnique() || found < 0
        ? found
        : rows(found, version().segment(found).count(Version.row(found)));
  }

  @Override
  long first(InternalRow arguments) {
    return first(arguments.getLong(0));
  }
}
