package bsjoin.jvm;

import org.apache.spark.sql.catalyst.InternalRow;

/** Finds the rows with equal keys. */
public final class KeyFinder extends Finder {

  KeyFinder(IndexJoin join) {
    super(join);
  }

  private transient KeysAhead.Keys ahead; // null: keys are found when they are asked for

  /** Let these find the keys of the next iterator, which is opened in this task. */
  void find(KeysAhead.Keys keys) {
    ahead = keys;
  }

  @Override
  long firstOf(long search) {
    return ahead == null ? super.firstOf(search) : ahead.first(search, version());
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
