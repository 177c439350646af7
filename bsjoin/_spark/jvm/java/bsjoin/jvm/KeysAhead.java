package bsjoin.jvm;

import java.io.Serializable;
import java.util.ArrayList;
import java.util.List;
import org.apache.spark.rdd.RDD;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.types.DataType;
import org.apache.spark.sql.types.IntegerType;
import org.apache.spark.sql.types.LongType;
import org.apache.spark.sql.vectorized.ColumnVector;
import org.apache.spark.sql.vectorized.ColumnarBatch;
import scala.collection.AbstractIterator;
import scala.collection.Iterator;
import scala.reflect.ClassTag;
import scala.reflect.ClassTag$;
import scala.runtime.AbstractFunction2;

/**
 * Passes columnar batches on to a stage whose keys are found many at a time, ahead of the rows that
 * they are of.
 *
 * <p>A key and its row are at a place of the index, one of the hashes, and one or two of each
 * column, each some hundred nanoseconds away where the table is larger than the CPU's caches. One row
 * after the other, they are waited for one after the other. Here the first places of all keys are
 * read, then the second ones, and so on: the CPU waits for many of them at once.
 *
 * <p>The stage asks for each key that it needs as before, see {@link Keys#first}. Rows that it drops
 * before are passed over, since keys are compared, so that no answer depends on the order.
 */
final class KeysAhead
    extends AbstractFunction2<Object, Iterator<ColumnarBatch>, Iterator<ColumnarBatch>>
    implements Serializable {
  private static final int SIZE = 128; // keys at once, and
  private static final int MOST = 16; // columns: what is read for them fits into a core's caches

  private final KeyFinder finder; // in a task the one of the generated code, which it opens then
  private final int place;
  private final boolean isLong;
  private final ArrayList<Read> reads;

  /**
   * Find keys for a finder.
   *
   * @param place of the key's column in the batches
   * @param type its type
   * @param reads what is read of the rows
   */
  KeysAhead(KeyFinder finder, int place, DataType type, List<Read> reads) {
    this.finder = finder;
    this.place = place;
    isLong = type instanceof LongType;
    this.reads = new ArrayList<>(reads.subList(0, Math.min(MOST, reads.size())));
  }

  /** Whether keys of a type are found so. */
  static boolean takes(DataType type) {
    return type instanceof LongType || type instanceof IntegerType;
  }

  /** The same batches: Spark calls them rows where a stage begins with them. */
  @SuppressWarnings("unchecked")
  RDD<InternalRow> of(RDD<InternalRow> input) {
    RDD<ColumnarBatch> batches = (RDD<ColumnarBatch>) (RDD<?>) input;
    ClassTag<ColumnarBatch> type = ClassTag$.MODULE$.apply(ColumnarBatch.class);
    return (RDD<InternalRow>) (RDD<?>) batches.mapPartitionsWithIndex(this, true, type);
  }

  @Override
  public Iterator<ColumnarBatch> apply(Object partition, Iterator<ColumnarBatch> batches) {
    Keys keys = new Keys();
    finder.find(keys);
    return new AbstractIterator<ColumnarBatch>() {
      @Override
      public boolean hasNext() {
        return batches.hasNext();
      }

      @Override
      public ColumnarBatch next() {
        ColumnarBatch batch = batches.next();
        keys.begin(batch.column(place), batch.numRows());
        return batch;
      }
    };
  }

  /** The keys of the batch that a stage takes its rows of. */
  final class Keys {
    private final ReadAhead[] columns = new ReadAhead[reads.size()];
    private final long[] keys = new long[SIZE];
    private final long[] found = new long[SIZE];
    private final Version.Steps steps = new Version.Steps(SIZE);
    private ColumnVector all;
    private int end; // of all
    private int next; // of all, to be found
    private int count; // of those that are found
    private int at; // the one that was asked for last
    private long read; // keeps the compiler from leaving out what is read for nothing else

    private Keys() {
      for (int i = 0; i < columns.length; i++) {
        columns[i] = reads.get(i).ahead();
      }
    }

    private void begin(ColumnVector vector, int rows) {
      all = vector;
      end = rows;
      next = 0;
      count = 0;
      at = 0;
    }

    /** The reference of the first row with a key; {@link Version#MISSING} if there is none. */
    long first(long key, Version version) {
      do {
        for (; at < count; at++) {
          if (keys[at] == key) {
            return found[at];
          }
        }
      } while (advance(version));
      return version.findInteger(key); // it is not one of the batch
    }

    private boolean advance(Version version) {
      at = 0;
      count = 0;
      while (next < end && count < SIZE) {
        if (!all.isNullAt(next)) {
          keys[count++] = isLong ? all.getLong(next) : all.getInt(next);
        }
        next++;
      }
      version.findIntegers(keys, count, steps, found);
      for (ReadAhead column : columns) {
        read += column.read(found, count);
      }
      return count > 0;
    }
  }
}
