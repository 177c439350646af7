package bsjoin.jvm.storage;

import java.util.concurrent.atomic.AtomicReferenceArray;
import org.apache.spark.sql.types.ByteType;
import org.apache.spark.sql.types.DataType;
import org.apache.spark.sql.types.DoubleType;
import org.apache.spark.sql.types.FloatType;
import org.apache.spark.sql.types.IntegerType;
import org.apache.spark.sql.types.ShortType;

/**
 * What aggregates any rows of a column of a segment that follow each other, in O(log n): {@code
 * bsjoin/index/aggregate_tree.py}.
 *
 * <p>The rows are in blocks of 16, 8 blocks are a node of the next level, and so on. The levels of a
 * part are made when it is first needed, from the column itself, and are kept in memory for as long as
 * the segment is open.
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
    GREATEST
  }

  private static final int BLOCK_BITS = 4;

  /** How many values are read at once: the ends of two blocks. */
  public static final int AT_ONCE = 2 << BLOCK_BITS;

  private static final int FAN_BITS = 3;
  private static final long LOWER = 0xffff_ffffL;

  private final Column column;
  private final int rows;
  private final boolean floating;
  private final boolean narrow;
  private final AtomicReferenceArray<long[][]> made =
      new AtomicReferenceArray<>(Part.values().length);

  AggregateTree(Column column, int rows) {
    this.column = column;
    this.rows = rows;
    DataType type = column.dataType();
    floating = type instanceof DoubleType || type instanceof FloatType;
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

  public long count(int first, int stop, long[] values) {
    return column.hasNull() ? of(Part.COUNT, first, stop, values) : stop - first;
  }

  /**
   * A part of some rows.
   *
   * @param first the first one
   * @param stop one past the last one
   * @param values room for {@link #AT_ONCE} values
   */
  public long of(Part part, int first, int stop, long[] values) {
    int begin = -(-first >> BLOCK_BITS);
    int end = stop >> BLOCK_BITS;
    long found = nothing(part);
    if (begin >= end) {
      return rows(part, first, stop, found, values);
    }
    found = rows(part, first, begin << BLOCK_BITS, found, values);
    found = rows(part, end << BLOCK_BITS, stop, found, values);
    long[][] levels = levels(part);
    for (int level = 0; ; level++) {
      int over = -(-begin >> FAN_BITS);
      int under = end >> FAN_BITS;
      if (over >= under || level == levels.length - 1) {
        return nodes(part, levels[level], begin, end, found);
      }
      found = nodes(part, levels[level], begin, over << FAN_BITS, found);
      found = nodes(part, levels[level], under << FAN_BITS, end, found);
      begin = over;
      end = under;
    }
  }

  private long[][] levels(Part part) {
    long[][] found = made.get(part.ordinal());
    return found == null ? make(part) : found;
  }

  private synchronized long[][] make(Part part) {
    long[][] levels = made.get(part.ordinal());
    if (levels != null) {
      return levels; // by another task, meanwhile
    }
    int depth = 1;
    for (int nodes = -(-rows >> BLOCK_BITS); nodes > 1 << FAN_BITS; nodes = -(-nodes >> FAN_BITS)) {
      depth++;
    }
    levels = new long[depth][];
    long[] values = new long[AT_ONCE];
    int below = rows;
    for (int level = 0; level < depth; level++) {
      int bits = level == 0 ? BLOCK_BITS : FAN_BITS;
      levels[level] = new long[-(-below >> bits)];
      for (int node = 0; node < levels[level].length; node++) {
        int first = node << bits;
        int stop = Math.min(below - first, 1 << bits) + first;
        levels[level][node] =
            level == 0
                ? rows(part, first, stop, nothing(part), values)
                : nodes(part, levels[level - 1], first, stop, nothing(part));
      }
      below = levels[level].length;
    }
    made.set(part.ordinal(), levels);
    return levels;
  }

  private static long nothing(Part part) {
    return switch (part) {
      case LEAST -> Long.MAX_VALUE;
      case GREATEST -> Long.MIN_VALUE;
      default -> 0; // the bits of 0.0, too
    };
  }

  /** What was found, and the part of at most {@link #AT_ONCE} rows. */
  private long rows(Part part, int first, int stop, long before, long[] values) {
    int count = stop - first;
    if (part == Part.COUNT) {
      return before + column.countOf(first, stop);
    }
    column.numbers(first, count, values);
    if (floating && part != Part.TOTAL) {
      for (int i = 0; i < count; i++) {
        values[i] = Code.of(Double.longBitsToDouble(values[i]));
      }
    } else if (part == Part.HIGH) {
      for (int i = 0; i < count; i++) {
        values[i] >>= 32;
      }
    } else if (part == Part.LOW) {
      for (int i = 0; i < count; i++) {
        values[i] &= LOWER;
      }
    }
    if (column.hasNull()) {
      long nothing = nothing(part);
      for (int i = 0; i < count; i++) {
        values[i] = column.isNullAt(first + i) ? nothing : values[i];
      }
    }
    return nodes(part, values, 0, count, before);
  }

  /** The same of nodes of a level. */
  private static long nodes(Part part, long[] level, int first, int stop, long before) {
    long found = before;
    switch (part) {
      case TOTAL -> {
        double total = Double.longBitsToDouble(before);
        for (int node = first; node < stop; node++) {
          total += Double.longBitsToDouble(level[node]);
        }
        found = Double.doubleToRawLongBits(total);
      }
      case LEAST -> {
        for (int node = first; node < stop; node++) {
          found = Math.min(found, level[node]);
        }
      }
      case GREATEST -> {
        for (int node = first; node < stop; node++) {
          found = Math.max(found, level[node]);
        }
      }
      default -> {
        for (int node = first; node < stop; node++) {
          found += level[node];
        }
      }
    }
    return found;
  }
}
