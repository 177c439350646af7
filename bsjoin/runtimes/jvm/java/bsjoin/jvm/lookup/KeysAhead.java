package bsjoin.jvm.lookup;

import bsjoin.jvm.spark.Scala;
import bsjoin.jvm.storage.Points;
import bsjoin.jvm.storage.Segment;
import bsjoin.jvm.storage.Version;
import java.io.Serializable;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.catalyst.expressions.Attribute;
import org.apache.spark.sql.catalyst.expressions.AttributeReference;
import org.apache.spark.sql.catalyst.expressions.Cast;
import org.apache.spark.sql.catalyst.expressions.Expression;
import org.apache.spark.sql.catalyst.expressions.Literal;
import org.apache.spark.sql.catalyst.expressions.XXH64;
import org.apache.spark.sql.catalyst.expressions.XxHash64;
import org.apache.spark.sql.types.DataType;
import org.apache.spark.sql.types.DateType;
import org.apache.spark.sql.types.DoubleType;
import org.apache.spark.sql.types.IntegerType;
import org.apache.spark.sql.types.LongType;
import org.apache.spark.sql.types.StringType;
import org.apache.spark.sql.types.TimestampNTZType;
import org.apache.spark.sql.types.TimestampType;
import org.apache.spark.sql.vectorized.ColumnarBatch;
import org.apache.spark.unsafe.types.UTF8String;

/**
 * Finds the keys of a join many at a time, ahead of the rows that they are of, and their points among
 * those of the keys: see {@link InputAhead}.
 *
 * <p>A key and its row are at a place of the index, one of the hashes, and one or two of each
 * column, each some hundred nanoseconds away where the table is larger than the CPU's caches. One row
 * after the other, they are waited for one after the other. Here the first places of all keys are
 * read, then the second ones, and so on: the CPU waits for many of them at once.
 *
 * <p>The stage asks for each key that it needs as before, see {@link Keys#first}. Rows that it drops
 * before are passed over, since keys are compared, so that no answer depends on the order.
 */
public final class KeysAhead implements Serializable {
  static final int SIZE = 64; // keys at once, and
  private static final long MANY = 1 << 10; // keys, after which it must have paid
  private static final int MOST = 16; // columns: what is read for them fits into a core's caches

  /**
   * A column of the input that is searched.
   *
   * @param bound of a point; null for a key
   * @param more what is added to the bound
   */
  record Input(int place, DataType type, RangeBound bound, int more) implements Serializable {
    /** Whether nothing is searched for a row: its column is null, and a null has no bound. */
    private boolean isNone(InternalRow row) {
      return row.isNullAt(place) && (bound == null || more != 0 || !bound.isOfNull());
    }

    /** What is searched for any other row. */
    private long of(InternalRow row) {
      if (bound != null && more == 0 && bound.isOfNull() && row.isNullAt(place)) {
        return (Long) bound.ofNull();
      }
      if (type instanceof StringType) {
        return hash(row.getUTF8String(place));
      }
      if (type instanceof DoubleType) {
        return bound.code(row.getDouble(place)) + more;
      }
      boolean isInt = type instanceof IntegerType || type instanceof DateType;
      long value = isInt ? row.getInt(place) : row.getLong(place);
      return bound == null ? value : bound.code(value) + more;
    }

    private static long hash(UTF8String text) {
      return XXH64.hashUnsafeBytes(
          text.getBaseObject(), text.getBaseOffset(), text.numBytes(), Segment.SEED);
    }
  }

  private final Finder finder; // in a task the one of the generated code, which it opens then
  private final Input key; // null: all rows of the table have the same
  private final Input point; // null: none is searched
  private final Input last; // the point above which a run of rows ends; null: it is not searched
  private final ArrayList<Read> reads;
  private final ArrayList<Aggregated> aggregates; // one for each column

  private KeysAhead(Finder finder, Input key, Input point, Input last, List<Expression> values) {
    this.finder = finder;
    this.key = key;
    this.point = point;
    this.last = last;
    List<Read> found = new ArrayList<>();
    aggregates = new ArrayList<>();
    values.forEach(value -> addReads(value, found, aggregates));
    reads = new ArrayList<>(found.subList(0, Math.min(MOST, found.size())));
  }

  /**
   * What finds the keys of a join; null if they, or the points, are not columns of the input, or of
   * types that are not found so.
   *
   * @param arguments see {@link LookupExec}
   * @param values what is computed of the rows that are found: the condition, the columns
   * @param input the columns of the stage's input
   */
  static KeysAhead of(
      Lookup lookup, List<Expression> arguments, List<Expression> values, List<Attribute> input) {
    Finder finder = lookup.finder();
    boolean isRange = finder.searched() >= 0;
    if (finder.follows() || !isRange && !(finder instanceof KeyFinder)) {
      return null;
    }
    boolean isText = lookup.compared() > 0; // an integer as the only key is never compared
    Input key = finder.isByOneKey() ? key(arguments.get(0), isText, input) : null;
    Input point = null;
    Input last = null;
    int searched = 1 + lookup.compared() + finder.searched();
    if (isRange && arguments.get(searched) instanceof Bound bound) {
      point = point(bound, input, finder.isAbove() ? 1 : 0);
    }
    if (finder.isRun() && arguments.get(searched + 1) instanceof Bound bound) {
      last = point(bound, input, 1);
    }
    // Else all rows have the same: that of tables without keys, which is found as a hash.
    boolean hasKey = finder.isByOneKey() || !(arguments.get(0) instanceof Literal);
    if (key == null && hasKey || point == null && isRange) {
      return null;
    }
    return new KeysAhead(finder, key, point, last, values);
  }

  /** An integer as it is, or a text by its hash: where the key is an integer, that is the user's. */
  private static Input key(Expression search, boolean isText, List<Attribute> input) {
    boolean isHash = isText && search instanceof XxHash64 && search.children().size() == 1;
    Expression key = isHash || search instanceof Cast ? search.children().head() : search;
    DataType type = key.dataType();
    boolean isFound =
        isHash ? type instanceof StringType
            : type instanceof LongType || type instanceof IntegerType;
    int place = place(key, input);
    return isFound && place >= 0 ? new Input(place, type, null, 0) : null;
  }

  private static Input point(Bound bound, List<Attribute> input, int more) {
    boolean isWider = bound.value() instanceof Cast && bound.value().dataType() instanceof LongType;
    Expression value = isWider ? bound.value().children().head() : bound.value();
    DataType type = value.dataType();
    boolean isFound =
        type instanceof LongType || type instanceof IntegerType
            || !isWider
                && (type instanceof DateType || type instanceof TimestampType
                    || type instanceof TimestampNTZType || type instanceof DoubleType);
    int place = place(value, input);
    return isFound && place >= 0 && !(bound.rule() instanceof RankBound)
        ? new Input(place, type, bound.rule(), more)
        : null;
  }

  /** The place of a column; -1 if it is none of these. */
  private static int place(Expression column, List<Attribute> input) {
    for (int place = 0; place < input.size(); place++) {
      if (column instanceof AttributeReference same
          && input.get(place).exprId().equals(same.exprId())) {
        return place;
      }
    }
    return -1;
  }

  private static void addReads(
      Expression value, List<Read> reads, List<Aggregated> aggregates) {
    if (value instanceof Read read && !reads.contains(read)) {
      reads.add(read);
    }
    if (value instanceof Aggregated one
        && aggregates.size() < MOST
        && aggregates.stream().noneMatch(other -> other.number == one.number)) {
      aggregates.add(one);
    }
    Scala.list(value.children()).forEach(child -> addReads(child, reads, aggregates));
  }

  /** The keys of a partition, for the finder that is opened next. */
  Keys open() {
    Keys keys = new Keys();
    finder.find(keys);
    return keys;
  }

  /** The keys of the rows that a stage takes next. */
  final class Keys {
    private List<ReadAhead> columns; // when the version is open
    private List<RunAhead> runs;
    private final long[] keys = new long[SIZE]; // 0 where there is none
    private final long[] codes = new long[SIZE]; // of the points; 0 where there is none
    private final long[] found = new long[SIZE]; // the first rows of the keys
    private final int[] points = new int[SIZE]; // the rows of the points
    private final long[] near = new long[SIZE]; // of rows that are read
    private final long[] above = new long[SIZE]; // codes of which no run has a point
    private final int[] stops = new int[SIZE]; // one past the last rows of the runs
    private final long[] ends = new long[SIZE]; // of these last rows
    private final Version.Steps steps = new Version.Steps(SIZE);
    private ColumnarBatch batch; // null: the rows are these
    private InternalRow[] rows;
    private int end; // of the rows
    private int next; // of the rows, to be found
    private int count; // of those that are found
    private int at; // the one that was asked for last
    private boolean isAt; // whether it was found
    private long asked; // keys, of which these
    private long searched; // were found before
    private long read; // keeps the compiler from leaving out what is read for nothing else

    void begin(ColumnarBatch all) {
      batch = all;
      begin(all.numRows());
    }

    void begin(InternalRow[] all, int size) {
      rows = all;
      begin(size);
    }

    private void begin(int size) {
      end = size;
      next = 0;
      count = 0;
      at = 0;
    }

    /**
     * The reference of the first row with a key, or of a text with a hash; {@link Version#MISSING} if
     * there is none.
     *
     * @param code what is asked for then: see {@link #notBelow}
     */
    long first(long key, long code, Finder finder) {
      asked++;
      isAt = true;
      if (searched > MANY && asked < searched / 4) {
        isAt = false;
        return finder.alone(key); // most rows are dropped before
      }
      do {
        for (; at < count; at++) {
          if (keys[at] == key && codes[at] == code) {
            return found[at];
          }
        }
      } while (advance(finder.version()));
      isAt = false;
      return finder.alone(key); // it is none of these rows'
    }

    /** Say which row it was that the key has, of those with the same hash. */
    void confirm(long reference) {
      isAt = isAt && found[at] == reference;
    }

    /** {@link Points#notBelow} in the rows of the key that {@link #first} was asked for. */
    int notBelow(Points all, long code, int low, int high) {
      return isAt && codes[at] == code
          ? points[at]
          : all.notBelow(code, low, high);
    }

    /** {@link Points#aboveFrom} from the row on that {@link #notBelow} was asked for. */
    int aboveFrom(Points all, long code, int row, int low, int high) {
      return last != null && isAt && points[at] == row && above[at] - 1 == code
          ? stops[at]
          : all.aboveFrom(code, row, low, high);
    }

    private void open() {
      runs = new ArrayList<>();
      aggregates.forEach(one -> runs.add(one.ahead()));
      columns = new ArrayList<>();
      if (key != null && key.type instanceof StringType) {
        columns.add(new ReadAhead(null, 0));
      }
      reads.forEach(one -> columns.add(one.ahead()));
    }

    private boolean advance(Version version) {
      if (columns == null) {
        open();
      }
      at = 0;
      count = 0;
      for (; next < end && count < SIZE; next++) {
        InternalRow row = batch == null ? rows[next] : batch.getRow(next);
        if ((key == null || !key.isNone(row)) && (point == null || !point.isNone(row))) {
          keys[count] = key == null ? 0 : key.of(row);
          above[count] = last == null ? 0 : last.of(row);
          codes[count++] = point == null ? 0 : point.of(row);
        }
      }
      searched += count;
      find(version);
      return count > 0;
    }

    private void find(Version version) {
      if (key == null) {
        Arrays.fill(found, 0, count, version.find(0));
      } else {
        version.find(keys, !(key.type instanceof StringType), count, steps, found);
      }
      if (point != null) {
        version.search(found, key == null, codes, count, steps, points, point.more, near);
      }
      if (last != null) {
        version.searchAgain(found, above, count, steps, stops, 1, ends);
        for (RunAhead run : runs) {
          read += run.read(near, count, false) + run.read(ends, count, true);
        }
      }
      for (ReadAhead column : columns) {
        read += column.read(version, point == null ? found : near, count);
      }
    }
  }
}
