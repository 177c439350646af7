package bsjoin.jvm.lookup;

import bsjoin.jvm.storage.Version;
import org.apache.spark.sql.catalyst.InternalRow;

/** Finds the rows with equal keys. */
public final class KeyFinder extends Finder {
  private transient KeysAhead.Keys ahead; // null: keys are found when they are asked for

  public KeyFinder(Searched rows) {
    super(rows, "");
  }

  /** Let these find the keys of the next iterator, which is opened in this task. */
  void find(KeysAhead.Keys keys) {
    ahead = keys;
  }

  @Override
  long firstOf(long search) {
    return ahead == null ? alone(search) : ahead.first(search, this);
  }

  /** The same, of a key that was not found ahead. */
  long alone(long search) {
    return super.firstOf(search);
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
