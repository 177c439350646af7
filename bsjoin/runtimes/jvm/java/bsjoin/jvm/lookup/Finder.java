package bsjoin.jvm.lookup;

import bsjoin.jvm.storage.Column;
import bsjoin.jvm.storage.LiveVersion;
import bsjoin.jvm.storage.Points;
import bsjoin.jvm.storage.Ranks;
import bsjoin.jvm.storage.Segment;
import bsjoin.jvm.storage.StoredVersion;
import bsjoin.jvm.storage.Version;
import java.io.Serializable;
import java.util.Arrays;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.types.DataType;
import org.apache.spark.sql.types.LongType;
import org.apache.spark.sql.types.StringType;

/**
 * Finds the rows of a stored table that may match a row of the stream.
 *
 * <p>It is made when a join is planned, for one version of the table, and travels with the tasks. In
 * real-time mode it follows the table's versions, see {@link #follow}.
 * Each iterator over the stream's rows has one of its own, from {@link #open}. For a row of the
 * stream, the generated code of {@link LookupExec} calls
 *
 * <pre>
 *   finder.key(0, ...); finder.key(1, ...);          // of keys that are compared with stored ones
 *   for (long found = finder.first(search, ...); found >= 0; found = finder.next())
 * </pre>
 *
 * <p>A class is {@code public} and has {@code public long first(long search, ...)}, whose
 * further arguments have the Java types of the search. None of them is ever null: a
 * row of the stream with a null argument has no match. A finder may return rows that do not match
 * only if the condition in question stays in {@link bsjoin.jvm.planner.Search#residual}.
 */
public abstract class Finder implements Serializable, Cloneable {
  /** The result where there is no row (any more). */
  public static final long NONE = Version.MISSING;

  /**
   * The rows that are searched.
   *
   * @param isInteger whether the key is one integer
   * @param compared the types of the keys that are stored for comparison
   * @param longestRun the rows of a key at most
   */
  public record Searched(
      StoredVersion stored, boolean isInteger, DataType[] compared, int longestRun) {}

  private final StoredVersion stored;
  private final boolean isInteger;
  private final DataType[] compared;
  private final int longestRun;
  private final String how; // what tells finders of one class and version apart
  private transient Version version;
  private transient long[] numbers; // the keys to compare: those that are longs
  private transient Object[] objects; // and the others
  private transient byte[] bound; // the value of the last bound, and its rank in a segment
  private transient long rank;
  private transient Ranks ranks;
  private transient long following;
  private transient long end;
  private transient KeysAhead.Keys ahead; // null: keys are found when they are asked for
  private transient long code; // what of a range is searched

  /** One that finds rows as a text says, beside the table and its version. */
  Finder(Searched rows, String how) {
    this.how = how;
    stored = rows.stored();
    isInteger = rows.isInteger();
    compared = rows.compared();
    longestRun = rows.longestRun();
  }

  /** Whether all rows that match are one result: the first is found, and {@link #count}. */
  boolean isRun() {
    return false;
  }

  /** How many rows the last search has found, the first of them included. */
  public final long count() {
    return end - following + 1;
  }

  final int number() {
    return stored.number;
  }

  /** Whether at most one row is found for a row of the stream. */
  boolean isUnique() {
    return longestRun <= 1;
  }

  /** Whether the key is one integer or text. */
  final boolean isByOneKey() {
    return isInteger || compared.length == 1 && compared[0] instanceof StringType;
  }

  long most() {
    return isUnique() ? 1 : longestRun;
  }

  /**
   * The first row, without generated code.
   *
   * @param arguments the search value, the keys to compare, and those of the search,
   *     none of them null
   */
  abstract long first(InternalRow arguments);

  final long argument(InternalRow arguments, int number) {
    return arguments.getLong(1 + compared.length + number);
  }

  final byte[] bound(InternalRow arguments, int number) {
    return arguments.getBinary(1 + compared.length + number);
  }

  final boolean isRanked() {
    return version.manifest.isRanked();
  }

  /** The next row; {@link #NONE} after the last one. */
  public long next() {
    return following < end ? following++ : NONE;
  }

  /** One for an iterator, with the version opened. */
  public final Finder open() {
    try {
      Finder opened = (Finder) clone();
      opened.version = stored.open();
      opened.numbers = new long[compared.length];
      opened.objects = new Object[compared.length];
      return opened;
    } catch (CloneNotSupportedException e) {
      throw new IllegalStateException(e);
    }
  }

  final boolean follows() {
    return stored instanceof LiveVersion;
  }

  /** Take the version that answers the next row of the stream. */
  final void follow() {
    version = stored.next(version);
  }

  final Version version() {
    return version;
  }

  /** What the following search compares with a stored key that is a long, or the hash of one. */
  public final void key(int place, long value) {
    numbers[place] = value;
  }

  /** The same of a text, a binary, or a decimal of more than 18 digits. */
  public final void key(int place, Object value) {
    objects[place] = value;
  }

  /** The first row with the key that is searched; {@link #NONE} if there is none. */
  final long firstOfKey(long search) {
    long found = firstOf(search);
    if (compared.length != 0) {
      while (found >= 0 && !isEqual(found)) {
        found = version.next(found, search);
      }
      return version.ifPresent(found);
    }
    return found;
  }

  private long firstOf(long search) {
    return ahead == null ? alone(search) : ahead.first(search, code, this);
  }

  /** The first row with an integer key, or with a hash, that was not found ahead. */
  final long alone(long search) {
    return isInteger ? version.findInteger(search) : version.find(search);
  }

  /** Let these find the keys of the next iterator, which is opened in this task. */
  final void find(KeysAhead.Keys keys) {
    ahead = keys;
  }

  /** Which of the arguments behind the keys is searched among the points of a key; -1 for none. */
  int searched() {
    return -1;
  }

  /** Whether what is searched is a code above it. */
  boolean isAbove() {
    return false;
  }

  /** {@link #firstOfKey(long)}, whose row with a code is asked for then. */
  final long firstOfKey(long search, long code) {
    this.code = code;
    long found = firstOfKey(search);
    if (ahead != null) {
      ahead.confirm(found);
    }
    return found;
  }

  /** {@link Points#notBelow}, which may have been found ahead. */
  final int notBelow(Points points, long code, int low, int high) {
    return ahead == null
        ? points.notBelow(code, low, high)
        : ahead.notBelow(points, code, low, high);
  }

  /** {@link Points#aboveFrom} from the row that {@link #notBelow} has found, likewise. */
  final int aboveFrom(Points points, long code, int row, int low, int high) {
    return ahead == null
        ? points.aboveFrom(code, row, low, high)
        : ahead.aboveFrom(points, code, row, low, high);
  }

  /** The code of a {@link RankBound} in a segment; of several with one value it searches once. */
  final long code(byte[] value, Segment segment) {
    int size = value.length - 1;
    byte step = value[size];
    if (step == Byte.MAX_VALUE || step == Byte.MIN_VALUE) {
      return step > 0 ? Long.MAX_VALUE : Long.MIN_VALUE;
    }
    boolean isSame =
        ranks == segment.ranks()
            && Arrays.equals(value, 0, size, bound, 0, bound.length - 1);
    if (!isSame) {
      ranks = segment.ranks();
      rank = ranks.code(value, size);
      bound = value;
    }
    return rank + step;
  }

  /** Rows that follow each other: the first is returned, {@link #next} gives the others. */
  final long rows(long first, int count) {
    following = first + 1;
    end = first + count;
    return first;
  }

  private boolean isEqual(long reference) {
    Segment segment = version.segment(reference);
    int row = Version.row(reference);
    for (int i = 0; i < compared.length; i++) {
      Column stored = segment.column(i);
      boolean same =
          compared[i] instanceof LongType
              ? stored.getLong(row) == numbers[i]
              : stored.is(row, objects[i]);
      if (!same) {
        return false;
      }
    }
    return true;
  }

  // Two joins find the same rows if they have equal finders: exchanges are reused then.

  @Override
  public boolean equals(Object other) {
    return other instanceof Finder that
        && that.getClass() == getClass()
        && that.stored.equals(stored)
        && that.how.equals(how);
  }

  @Override
  public int hashCode() {
    return stored.hashCode() + how.hashCode();
  }
}
