package bsjoin.jvm;

import java.io.Serializable;
import java.util.ArrayList;
import java.util.List;
import org.apache.spark.rdd.RDD;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.catalyst.expressions.UnsafeRow;
import org.apache.spark.sql.vectorized.ColumnarBatch;
import org.apache.spark.unsafe.Platform;
import scala.collection.AbstractIterator;
import scala.collection.Iterator;
import scala.reflect.ClassTag$;
import scala.runtime.AbstractFunction2;

/**
 * Passes the input of a stage on, columnar batches or rows, and shows it before to what finds the keys
 * of its joins, see {@link KeysAhead}.
 *
 * <p>Rows are kept for that, {@link KeysAhead#SIZE} at a time: what makes them may use one object for
 * all.
 */
final class InputAhead extends AbstractFunction2<Object, Iterator<Object>, Iterator<Object>>
    implements Serializable {
  private final ArrayList<KeysAhead> joins;
  private final boolean isColumnar;

  private InputAhead(List<KeysAhead> joins, boolean isColumnar) {
    this.joins = new ArrayList<>(joins);
    this.isColumnar = isColumnar;
  }

  /** The same input, for these joins. Spark calls batches rows where a stage begins with them. */
  @SuppressWarnings("unchecked")
  static RDD<InternalRow> of(RDD<InternalRow> input, List<KeysAhead> joins, boolean isColumnar) {
    RDD<Object> any = (RDD<Object>) (RDD<?>) input;
    Class<?> type = isColumnar ? ColumnarBatch.class : InternalRow.class;
    return (RDD<InternalRow>)
        (RDD<?>)
            any.mapPartitionsWithIndex(
                new InputAhead(joins, isColumnar), true, ClassTag$.MODULE$.apply((Class<Object>) type));
  }

  @Override
  public Iterator<Object> apply(Object partition, Iterator<Object> input) {
    List<KeysAhead.Keys> keys = new ArrayList<>();
    joins.forEach(join -> keys.add(join.open()));
    return isColumnar ? new Batches(input, keys) : new Rows(input, keys);
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

  private static final class Rows extends AbstractIterator<Object> {
    private final Iterator<Object> input;
    private final List<KeysAhead.Keys> keys;
    private final InternalRow[] rows = new InternalRow[KeysAhead.SIZE];
    private final byte[][] bytes = new byte[KeysAhead.SIZE][0];
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
      if (next == size) {
        for (size = 0; size == 0 || size < rows.length && input.hasNext(); size++) {
          keep((InternalRow) input.next(), size);
        }
        next = 0;
        keys.forEach(one -> one.begin(rows, size));
      }
      return rows[next++];
    }

    private void keep(InternalRow row, int place) {
      if (!(row instanceof UnsafeRow)) {
        rows[place] = row.copy();
        return;
      }
      UnsafeRow of = (UnsafeRow) row;
      int length = of.getSizeInBytes();
      if (bytes[place].length < length) {
        bytes[place] = new byte[length + length / 2];
      }
      Platform.copyMemory(
          of.getBaseObject(), of.getBaseOffset(), bytes[place], Platform.BYTE_ARRAY_OFFSET, length);
      UnsafeRow kept =
          rows[place] instanceof UnsafeRow ? (UnsafeRow) rows[place] : new UnsafeRow(of.numFields());
      kept.pointTo(bytes[place], length);
      rows[place] = kept;
    }
  }
}
