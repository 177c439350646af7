package bsjoin.jvm.lookup;

import java.io.Serializable;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.NoSuchElementException;
import org.apache.spark.rdd.RDD;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.catalyst.expressions.UnsafeRow;
import org.apache.spark.sql.vectorized.ColumnVector;
import org.apache.spark.sql.vectorized.ColumnarBatch;
import org.apache.spark.sql.vectorized.ColumnarBatchRow;
import org.apache.spark.unsafe.Platform;
import scala.collection.AbstractIterator;
import scala.collection.Iterator;
import scala.reflect.ClassTag$;
import scala.runtime.AbstractFunction2;

/**
 * Passes the input of a stage on, columnar batches or rows, and shows it before to what finds the keys
 * of its joins, see {@link KeysAhead}.
 *
 * <p>Rows are kept for that, up to {@link KeysAhead#SIZE} at a time: what makes them may use one object
 * for all. So they are taken from their source earlier than they are used. Files are no such source:
 * {@code input_file_name()} tells what a task reads now.
 */
public final class InputAhead extends AbstractFunction2<Object, Iterator<Object>, Iterator<Object>>
    implements Serializable {
  private final ArrayList<KeysAhead> joins;
  private final boolean hasBatches;
  private final boolean takesBatches;

  private InputAhead(List<KeysAhead> joins, boolean hasBatches, boolean takesBatches) {
    this.joins = new ArrayList<>(joins);
    this.hasBatches = hasBatches;
    this.takesBatches = takesBatches;
  }

  /**
   * The same input, for these joins. Spark calls batches rows where a stage begins with them.
   *
   * @param hasBatches whether the input are batches
   * @param takesBatches whether the stage takes them, not their rows
   */
  @SuppressWarnings("unchecked")
  static RDD<InternalRow> of(
      RDD<?> input, List<KeysAhead> joins, boolean hasBatches, boolean takesBatches) {
    RDD<Object> any = (RDD<Object>) input;
    Class<?> type = takesBatches ? ColumnarBatch.class : InternalRow.class;
    return (RDD<InternalRow>)
        (RDD<?>)
            any.mapPartitionsWithIndex(
                new InputAhead(joins, hasBatches, takesBatches), true,
                ClassTag$.MODULE$.apply((Class<Object>) type));
  }

  @Override
  public Iterator<Object> apply(Object partition, Iterator<Object> input) {
    List<KeysAhead.Keys> keys = new ArrayList<>();
    joins.forEach(join -> keys.add(join.open()));
    if (!hasBatches) {
      return new Rows(input, keys);
    }
    Iterator<Object> batches = new Batches(input, keys);
    return takesBatches ? batches : new BatchRows(batches);
  }

  private static final class Batches extends AbstractIterator<Object> {
    private final Iterator<Object> input;
    private final List<KeysAhead.Keys> keys;

    Batches(Iterator<Object> input, List<KeysAhead.Keys> keys) {
      this.input = input;
      this.keys = keys;
    }

    @Override
    public boolean hasNext() {
      return input.hasNext();
    }

    @Override
    public Object next() {
      ColumnarBatch batch = (ColumnarBatch) input.next();
      keys.forEach(one -> one.begin(batch));
      return batch;
    }
  }

  /** The rows of batches, each of which is closed behind its last row. */
  private static final class BatchRows extends AbstractIterator<Object> {
    private final Iterator<Object> batches;
    private ColumnarBatch batch;
    private ColumnarBatchRow row; // not that of the batch, by which others read ahead
    private int next;
    private int size;

    BatchRows(Iterator<Object> batches) {
      this.batches = batches;
    }

    @Override
    public boolean hasNext() {
      while (next == size && batches.hasNext()) {
        if (batch != null) {
          batch.close(); // Spark keeps it until the task ends
        }
        batch = (ColumnarBatch) batches.next();
        ColumnVector[] columns = new ColumnVector[batch.numCols()];
        Arrays.setAll(columns, batch::column);
        row = new ColumnarBatchRow(columns);
        next = 0;
        size = batch.numRows();
      }
      return next < size;
    }

    @Override
    public Object next() {
      if (!hasNext()) {
        throw new NoSuchElementException();
      }
      row.rowId = next++;
      return row;
    }
  }

  private static final class Rows extends AbstractIterator<Object> {
    private static final int HELD = 1 << 20; // bytes of rows at once, unless one alone has more
    private static final int WIDE = 1 << 14; // bytes of a row: such rows keep no more than they need

    private final Iterator<Object> input;
    private final List<KeysAhead.Keys> keys;
    private final UnsafeRow[] rows = new UnsafeRow[KeysAhead.SIZE];
    private final byte[][] bytes = new byte[KeysAhead.SIZE][0];
    private int most = 1; // rows at once: the first one does not wait for many
    private int size;
    private int next;

    Rows(Iterator<Object> input, List<KeysAhead.Keys> keys) {
      this.input = input;
      this.keys = keys;
    }

    @Override
    public boolean hasNext() {
      return next < size || input.hasNext();
    }

    @Override
    public Object next() {
      if (next < size) {
        return rows[next++];
      }
      Object row = input.next();
      next = 0;
      size = 0;
      if (!(row instanceof UnsafeRow)) {
        return row; // it may be another one after the next: its key is found alone
      }
      int held = keep((UnsafeRow) row, size++);
      while (size < most && held < HELD && input.hasNext()) {
        held += keep((UnsafeRow) input.next(), size++);
      }
      most = Math.min(2 * most, rows.length);
      keys.forEach(one -> one.begin(rows, size));
      return rows[next++];
    }

    /** Returns the bytes of the row. */
    private int keep(UnsafeRow of, int place) {
      int length = of.getSizeInBytes();
      if (bytes[place].length < length || bytes[place].length > WIDE && length < WIDE) {
        bytes[place] = new byte[length < WIDE ? length + length / 2 : length];
      }
      Platform.copyMemory(
          of.getBaseObject(), of.getBaseOffset(), bytes[place], Platform.BYTE_ARRAY_OFFSET, length);
      if (rows[place] == null) {
        rows[place] = new UnsafeRow(of.numFields());
      }
      rows[place].pointTo(bytes[place], length);
      return length;
    }
  }
}
