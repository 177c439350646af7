package bsjoin.jvm.lookup;

import bsjoin.jvm.storage.AggregateTree;
import bsjoin.jvm.storage.AggregateTree.Part;
import bsjoin.jvm.storage.Code;
import java.io.Serializable;
import java.math.BigDecimal;
import java.math.BigInteger;
import java.math.RoundingMode;
import java.util.Locale;
import org.apache.spark.sql.types.DataType;
import org.apache.spark.sql.types.Decimal;
import org.apache.spark.sql.types.DecimalType;

/**
 * An aggregate function over the rows that match a row of the stream, with the types and values that
 * Spark's function has: {@code bsjoin/runtimes/python/worker/aggregating.py}.
 *
 * <p>Each iterator has one of its own, from {@link #open}: it keeps the value that was asked for last.
 */
public final class Aggregate implements Serializable {
  private static final long LOWER = 0xffff_ffffL;

  private enum Function {
    COUNT,
    SUM,
    AVG,
    MIN,
    MAX
  }

  private final Function function;
  private final int column; // its number
  private final DataType type; // of the result
  private final boolean wraps; // a sum of more than 64 bits, which otherwise is an error
  private long whole;
  private double number;
  private Decimal decimal;

  Aggregate(String function, int column, DataType type, boolean wraps) {
    this.function = Function.valueOf(function.toUpperCase(Locale.ROOT));
    this.column = column;
    this.type = type;
    this.wraps = wraps;
  }

  /** One for an iterator. */
  public Aggregate open() {
    return new Aggregate(function.name(), column, type, wraps);
  }

  /**
   * Whether it is null; if not, it is what one of the getters returns then.
   *
   * @param reference the first of the rows; negative if there is none
   * @param rows how many
   */
  public boolean isNull(Columns columns, long reference, long rows) {
    RunParts run = columns.run(column);
    AggregateTree tree = run.at(reference, rows);
    long count = tree == null ? 0 : tree.hasNull() ? run.of(Part.COUNT) : rows;
    whole = count;
    if (function == Function.COUNT || count == 0) {
      return function != Function.COUNT;
    }
    switch (function) {
      case MIN -> value(tree, run.of(Part.LEAST));
      case MAX -> value(tree, run.of(Part.GREATEST));
      default -> {
        if (tree.isFloating()) {
          double total = Double.longBitsToDouble(run.of(Part.TOTAL));
          number = function == Function.SUM ? total : total / count;
        } else if (tree.isNarrow()) {
          long sum = run.of(Part.WHOLE);
          sum(sum >> 32, sum & LOWER, count);
        } else {
          sum(run.of(Part.HIGH), run.of(Part.LOW), count);
        }
      }
    }
    return false;
  }

  private void value(AggregateTree tree, long code) {
    if (tree.isFloating()) {
      number = Code.toDouble(code);
    } else if (type instanceof DecimalType stored) {
      decimal = Decimal.createUnsafe(code, stored.precision(), stored.scale());
    } else {
      whole = code;
    }
  }

  /** The sum or the average of whole numbers, of the sums of the upper and of the lower 32 bits. */
  private void sum(long high, long low, long count) {
    long upper = high + (low >>> 32);
    long lower = low & LOWER;
    boolean isSum = function == Function.SUM;
    if (type instanceof DecimalType found) {
      BigInteger unscaled = BigInteger.valueOf(upper).shiftLeft(32).or(BigInteger.valueOf(lower));
      BigDecimal value = new BigDecimal(unscaled, isSum ? found.scale() : found.scale() - 4);
      if (!isSum) {
        value = value.divide(BigDecimal.valueOf(count), found.scale(), RoundingMode.HALF_UP);
      }
      decimal =
          Decimal.apply(
              scala.math.BigDecimal.javaBigDecimal2bigDecimal(value), found.precision(),
              found.scale());
    } else if (!isSum) {
      number = (upper * 0x1p32 + lower) / count;
    } else if (upper == (int) upper || wraps) {
      whole = upper << 32 | lower;
    } else {
      throw new ArithmeticException(
          "[ARITHMETIC_OVERFLOW] long overflow. A sum of integers needs more than 64 bits: cast the "
              + "table's column to double or to decimal(18,0), or set spark.sql.ansi.enabled to "
              + "false to let the sum wrap around, as Spark's does");
    }
  }

  // What it is: one of these, as its type is.

  public long whole() {
    return whole;
  }

  public double number() {
    return number;
  }

  public Decimal decimal() {
    return decimal;
  }
}
