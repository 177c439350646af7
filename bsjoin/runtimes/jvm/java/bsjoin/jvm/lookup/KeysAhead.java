package bsjoin.jvm.lookup;

import bsjoin.jvm.storage.Segment;
import bsjoin.jvm.storage.Version;
import java.io.Serializable;
import java.util.ArrayList;
import java.util.List;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.catalyst.expressions.XXH64;
import org.apache.spark.sql.types.DataType;
import org.apache.spark.sql.types.IntegerType;
import org.apache.spark.sql.types.LongType;
import org.apache.spark.sql.types.StringType;
import org.apache.spark.sql.vectorized.ColumnVector;
import org.apache.spark.sql.vectorized.ColumnarBatch;
import org.apache.spark.unsafe.types.UTF8String;

/**
 * Finds the keys of a join many at a time, ahead of the rows that they are of: see {@link InputAhead}.
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

  private final KeyFinder finder; // in a task the one of the generated code, which it opens then
  private final int place;
  private final DataType type;
  private final ArrayList<Read> reads;

  /**
   * Find keys for a finder.
   *
   * @param place of the key's column in the input
   * @param type its type, which {@link #takes} has allowed
   * @param reads what is read of the rows
   */
  KeysAhead(KeyFinder finder, int place, DataType type, List<Read> reads) {
    this.finder = finder;
    this.place = place;
    this.type = type;
    this.reads = new ArrayList<>(reads.subList(0, Math.min(MOST, reads.size())));
  }

  /** Whether keys of a type are found so: integers as they are, texts by their hash. */
  static boolean takes(DataType type) {
    return type instanceof LongType || type instanceof IntegerType || type instanceof StringType;
  }

  /** The keys of a partition, for the finder that is opened next. */
  Keys open() {
    Keys keys = new Keys();
    finder.find(keys);
    return keys;
  }

  /** The keys of the rows that a stage takes next. */
  final class Keys {
    private final boolean isText = type instanceof StringType;
    private final boolean isLong = type instanceof LongType;
    private List<ReadAhead> columns; // when the version is open
    private final long[] keys = new long[SIZE];
    private final long[] found = new long[SIZE];
    private final Version.Steps steps = new Version.Steps(SIZE);
    private ColumnVector vector; // null: the rows are these
    private InternalRow[] rows;
    private int end; // of the rows
    private int next; // of the rows, to be found
    private int count; // of those that are found
    private int at; // the one that was asked for last
    private long asked; // keys, of which these
    private long searched; // were found before
    private long read; // keeps the compiler from leaving out what is read for nothing else

    /** Take the keys of a columnar batch, whose column is {@code all.column(place)}. */
    void begin(ColumnarBatch all) {
      vector = all.column(place);
      begin(all.numRows());
    }

    /** Take the keys of some rows. */
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
     */
    long first(long key, KeyFinder finder) {
      asked++;
      if (searched > MANY && asked < searched / 4) {
        return finder.alone(key); // most rows are dropped before
      }
      do {
        for (; at < count; at++) {
          if (keys[at] == key) {
            return found[at];
          }
        }
      } while (advance(finder.version()));
      return finder.alone(key); // it is none of these rows'
    }

    private void open() {
      columns = new ArrayList<>();
      if (isText) {
        columns.add(ReadAhead.ofCompared(0));
      }
      reads.forEach(one -> columns.add(one.ahead()));
    }

    private boolean advance(Version version) {
      if (columns == null) {
        open();
      }
      at = 0;
      count = 0;
      while (next < end && count < SIZE) {
        if (vector == null) {
          InternalRow row = rows[next];
          if (!row.isNullAt(place)) {
            keys[count++] =
                isText ? hash(row.getUTF8String(place))
                    : isLong ? row.getLong(place) : row.getInt(place);
          }
        } else if (!vector.isNullAt(next)) {
          keys[count++] =
              isText ? hash(vector.getUTF8String(next))
                  : isLong ? vector.getLong(next) : vector.getInt(next);
        }
        next++;
      }
      searched += count;
      version.find(keys, !isText, count, steps, found);
      for (ReadAhead column : columns) {
        read += column.read(version, found, count);
      }
      return count > 0;
    }

    /** The same as Spark's xxhash64. */
    private long hash(UTF8String text) {
      return XXH64.hashUnsafeBytes(
          text.getBaseObject(), text.getBaseOffset(), text.numBytes(), Segment.SEED);
    }
  }
}
