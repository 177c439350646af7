package bsjoin.jvm.storage;

import org.apache.spark.sql.types.ByteType;
import org.apache.spark.sql.types.DataType;
import org.apache.spark.sql.types.IntegerType;
import org.apache.spark.sql.types.ShortType;
import org.apache.spark.unsafe.Platform;

/**
 * What aggregates any rows of a column of a segment that follow each other, in O(log n): {@code
 * bsjoin/index/aggregate_tree.py}.
 *
 * <p>Rows at both ends are read from the column, blocks of 16 rows between them from {@link
 * AggregateBlocks}. These are made of the parts that are asked for, when they are first needed, and are
 * kept in memory for as long as the segment is open.
 */
public final class AggregateTree {
  /** What there is of rows. Without a value it is 0, or above or below all codes. */
  public enum Part {
    COUNT,
    /** The sum of whole numbers of at most 32 bits, which does not overflow. */
    WHOLE,
    /** The sum of the upper 32 bits of whole numbers, which does not either. */
    HIGH,
    /** The sum of the lower 32 bits. */
    LOW,
    /** The bits of the sum in double. */
    TOTAL,
    LEAST,
    GREATEST;

    int bit() {
      return 1 << ordinal();
    }

    /** Whether a part of rows is that of more rows without that of others. */
    boolean isExact() {
      return ordinal() < TOTAL.ordinal();
    }
  }

  private static final int COUNT = Part.COUNT.bit();
  private static final int EXTREMES = Part.LEAST.bit() | Part.GREATEST.bit();
  private static final int BLOCK_BITS = 4;

  /** How many values are read at once: the ends of two blocks. */
  public static final int AT_ONCE = 2 << BLOCK_BITS;

  private static final long LOWER = 0xffff_ffffL;

  private final Column column;
  private final int rows;
  private final boolean floating;
  private final boolean narrow;
  private volatile AggregateBlocks blocks;

  AggregateTree(Column column, int rows) {
    this.column = column;
    this.rows = rows;
    DataType type = column.dataType();
    floating = Types.isFloating(type);
    narrow =
        type instanceof IntegerType || type instanceof ShortType || type instanceof ByteType;
  }

  public boolean isFloating() {
    return floating;
  }

  /** Whether {@link Part#WHOLE} is the sum. */
  public boolean isNarrow() {
    return narrow;
  }

  /** Whether a run has fewer values than rows. */
  public boolean hasNull() {
    return column.hasNull();
  }

  /**
   * Some parts, by the bits of their ordinals, of some rows: {@code found} gets each by its ordinal, and
   * any numbers for others. What is read of the rows themselves is read once for all; {@code values} is
   * room for {@link #AT_ONCE} of them.
   */
  public void of(int parts, int first, int stop, long[] values, long[] found) {
    int begin = -(-first >> BLOCK_BITS);
    int end = stop >> BLOCK_BITS;
    boolean isWide = begin < end; // there is a block between the ends
    int before = isWide ? begin << BLOCK_BITS : stop;
    int behind = isWide ? end << BLOCK_BITS : stop;
    ends(parts, first, before, behind, stop, values, found);
    if (isWide) {
      blocks(parts).add(parts, begin, end, found);
    }
  }

  /** Some parts of the rows from the first one on and of those up to the last one. */
  private void ends(
      int parts, int first, int before, int behind, int stop, long[] values, long[] found) {
    if (parts != COUNT) {
      int count = values(first, before, values, 0);
      count = values(behind, stop, values, count);
      parts(parts, values, count, found);
    }
    if ((parts & COUNT) != 0) {
      found[Part.COUNT.ordinal()] = column.countOf(first, before) + column.countOf(behind, stop);
    }
  }

  /**
   * Read what {@link #of} reads first at ends of runs, which have references, so that it is in the CPU's
   * caches then; what is returned says nothing. A loop for each array: the CPU waits for many of its
   * rows at once.
   */
  public long touch(long[] references, int first, int stop, boolean isLast) {
    long sum = 0;
    for (int i = first; i < stop; i++) {
      sum += Platform.getByte(null, column.near(Version.row(references[i])));
    }
    int within = (1 << BLOCK_BITS) - 1;
    for (int i = first; i < stop; i++) { // the other end of the block may be on another line
      int row = Version.row(references[i]);
      int other = isLast ? row & ~within : Math.min(row | within, rows - 1);
      sum += Platform.getByte(null, column.near(other));
    }
    AggregateBlocks made = blocks;
    if (made != null) {
      int more = isLast ? 1 : within; // blocks begin from there on, or end up to there
      for (int i = first; i < stop; i++) {
        sum += made.touch(Version.row(references[i]) + more >> BLOCK_BITS);
      }
    }
    return sum;
  }

  private AggregateBlocks blocks(int parts) {
    AggregateBlocks made = blocks;
    return made != null && (parts & ~made.parts()) == 0 ? made : make(parts);
  }

  private synchronized AggregateBlocks make(int parts) {
    int all = blocks == null ? parts : blocks.parts() | parts;
    if (blocks == null || all != blocks.parts()) { // not made by another task, meanwhile
      long[] values = new long[AT_ONCE];
      blocks =
          new AggregateBlocks(
              all,
              -(-rows >> BLOCK_BITS),
              (block, found) -> {
                int first = block << BLOCK_BITS;
                int stop = Math.min(rows - first, 1 << BLOCK_BITS) + first;
                ends(all, first, stop, stop, stop, values, found);
              });
    }
    return blocks;
  }

  private static long nothing(Part part) {
    return switch (part) {
      case LEAST -> Long.MAX_VALUE;
      case GREATEST -> Long.MIN_VALUE;
      default -> 0; // the bits of 0.0, too
    };
  }

  /** Put the values of some rows, those of nulls left out, at a place; the place behind the last one. */
  private int values(int first, int stop, long[] values, int place) {
    column.numbers(first, stop - first, values, place);
    int next = place + stop - first;
    if (column.hasNull()) {
      next = place;
      for (int row = first; row < stop; row++) {
        if (!column.isNullAt(row)) {
          values[next++] = values[place + row - first];
        }
      }
    }
    return next;
  }

  /** Some parts of some values, and any others, but not how many there are. */
  private void parts(int parts, long[] values, int count, long[] found) {
    long least = nothing(Part.LEAST);
    long greatest = nothing(Part.GREATEST);
    if (floating) {
      double total = 0;
      for (int i = 0; i < count; i++) {
        total += Double.longBitsToDouble(values[i]);
      }
      found[Part.TOTAL.ordinal()] = Double.doubleToRawLongBits(total);
      for (int i = 0; i < count && (parts & EXTREMES) != 0; i++) {
        long code = Code.of(Double.longBitsToDouble(values[i]));
        least = Math.min(least, code);
        greatest = Math.max(greatest, code);
      }
    } else {
      long whole = 0;
      long high = 0;
      long low = 0;
      for (int i = 0; i < count; i++) {
        long value = values[i];
        whole += value;
        high += value >> 32;
        low += value & LOWER;
        least = Math.min(least, value);
        greatest = Math.max(greatest, value);
      }
      found[Part.WHOLE.ordinal()] = whole;
      found[Part.HIGH.ordinal()] = high;
      found[Part.LOW.ordinal()] = low;
    }
    found[Part.LEAST.ordinal()] = least;
    found[Part.GREATEST.ordinal()] = greatest;
  }
}
