package bsjoin.jvm.lookup;

import bsjoin.jvm.spark.Scala;
import java.io.Serializable;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.catalyst.expressions.And;
import org.apache.spark.sql.catalyst.expressions.BasePredicate;
import org.apache.spark.sql.catalyst.expressions.Expression;
import org.apache.spark.sql.catalyst.expressions.GenericInternalRow;
import org.apache.spark.sql.catalyst.expressions.JoinedRow;
import org.apache.spark.sql.catalyst.expressions.Literal;
import org.apache.spark.sql.catalyst.expressions.Predicate;
import org.apache.spark.sql.catalyst.expressions.UnsafeProjection;
import org.apache.spark.sql.catalyst.expressions.UnsafeRow;
import org.apache.spark.sql.types.DataType;
import scala.collection.AbstractIterator;
import scala.collection.Iterator;
import scala.collection.immutable.Seq;
import scala.runtime.AbstractFunction2;

/** A {@link LookupExec} outside of generated stages: from the rows of a partition to its results. */
public final class LookupRows
    extends AbstractFunction2<Object, Iterator<InternalRow>, Iterator<InternalRow>>
    implements Serializable {
  private final Lookup lookup;
  private final Counts counts; // null: nothing is counted
  private final Seq<Expression> arguments;
  private final Seq<Expression> condition;
  private final Seq<Expression> output; // null: the stream's row itself

  /** All expressions are of the stream's columns, and of what is found, behind them. */
  LookupRows(
      Lookup lookup, Counts counts, Seq<Expression> arguments, Seq<Expression> condition,
      Seq<Expression> output) {
    this.lookup = lookup;
    this.counts = counts;
    this.arguments = arguments;
    this.condition = condition;
    this.output = output;
  }

  @Override
  public Iterator<InternalRow> apply(Object partition, Iterator<InternalRow> rows) {
    return new Results((Integer) partition, rows);
  }

  private final class Results extends AbstractIterator<InternalRow> {
    private final Iterator<InternalRow> rows;
    private final Counts counted;
    private final Finder finder;
    private final UnsafeProjection argumentsOf = UnsafeProjection.create(arguments);
    private final DataType[] types =
        Scala.list(arguments).stream().map(Expression::dataType).toArray(DataType[]::new);
    private final BasePredicate whole = // of the condition
        Predicate.create(
            Scala.list(condition).stream()
                .reduce((one, other) -> new And(one, other))
                .orElse(Literal.TrueLiteral()));
    private final UnsafeProjection outputOf =
        output == null ? null : UnsafeProjection.create(output);
    private final Collector collector =
        lookup.collector() == null ? null : lookup.collector().open();
    private final InternalRow reference; // and how many, or the array of all
    private final JoinedRow pair = new JoinedRow();
    private InternalRow row; // of the stream
    private long found = Finder.NONE; // the next candidate of it
    private boolean isOpen; // whether it may have more results
    private int taken; // how many matches it has had
    private boolean isReady; // whether there is a result that was not taken

    Results(int partition, Iterator<InternalRow> rows) {
      this.rows = rows;
      counted = counts == null ? null : counts.open(partition);
      finder = counted == null ? lookup.finder().open() : counted.opened(lookup.finder());
      argumentsOf.initialize(partition);
      whole.initialize(partition);
      if (outputOf != null) {
        outputOf.initialize(partition);
      }
      if (collector == null) {
        UnsafeRow numbers = new UnsafeRow(2);
        numbers.pointTo(new byte[24], 24);
        reference = numbers;
      } else {
        reference = new GenericInternalRow(2);
      }
      pair.withRight(reference);
    }

    @Override
    public boolean hasNext() {
      while (!isReady) {
        if (isOpen) {
          isReady = advance();
        } else if (rows.hasNext()) {
          begin(rows.next());
        } else {
          return false;
        }
      }
      return true;
    }

    @Override
    public InternalRow next() {
      if (!hasNext()) {
        throw new java.util.NoSuchElementException();
      }
      isReady = false;
      if (counted != null) {
        counted.result();
      }
      return outputOf == null ? row : outputOf.apply(pair);
    }

    private void begin(InternalRow next) {
      row = next;
      pair.withLeft(next);
      UnsafeRow values = argumentsOf.apply(next);
      found = values.anyNull() ? Finder.NONE : first(values);
      if (finder.isRun()) {
        reference.setLong(1, found < 0 ? 0 : finder.count());
      }
      if (collector != null) {
        reference.update(1, collector.all(finder, found));
      }
      isOpen = true;
      taken = 0;
    }

    private long first(UnsafeRow values) {
      finder.follow();
      for (int i = 0; i < lookup.compared(); i++) {
        Object value = values.get(1 + i, types[1 + i]);
        if (value instanceof Long) {
          finder.key(i, ((Long) value).longValue());
        } else {
          finder.key(i, value);
        }
      }
      return finder.first(values);
    }

    /** Go to the next result of the row; false if there is none. */
    private boolean advance() {
      while (found >= 0 && !matches()) {
        found = lookup.finder().isUnique() ? Finder.NONE : finder.next();
      }
      boolean there = found >= 0;
      reference.setLong(0, found);
      boolean isFirst = taken == 0;
      taken += there ? 1 : 0;
      isOpen = there && !lookup.isSingle() && taken < lookup.limit();
      if (isOpen) {
        found = finder.next();
      } else if (counted != null) {
        counted.row(taken > 0 ? 0 : Finder.NONE);
      }
      return lookup.kind().keeps(there, isFirst);
    }

    private boolean matches() {
      reference.setLong(0, found);
      return whole.eval(pair);
    }
  }
}
