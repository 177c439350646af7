package bsjoin.jvm.storage;

import org.apache.spark.sql.types.ByteType;
import org.apache.spark.sql.types.DataType;
import org.apache.spark.sql.types.DoubleType;
import org.apache.spark.sql.types.FloatType;
import org.apache.spark.sql.types.IntegerType;
import org.apache.spark.sql.types.ShortType;
import org.apache.spark.unsafe.Platform;

/**
 * What aggregates any rows of a column of a segment that follow each other, in O(log n): {@code
 * bsjoin/index/aggregate_tree.py}.
 *
 * <p>The rows are in blocks of 16, 8 blocks are a node of the next level, and so on. What is added
 * up exactly has the sum of all blocks before each one instead. The levels of a part are made when it
 * is first needed, from the column itself, and are kept in memory for as long as the segment is open.
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

  private static final Part[] PARTS = Part.values();
  private static final int COUNT = 1 << Part.COUNT.ordinal();
  private static final int BLOCK_BITS = 4;

  /** How many values are read at once: the ends of two blocks. */
  public static final int AT_ONCE = 2 << BLOCK_BITS;

  private static final int FAN_BITS = 3;
  private static final long LOWER = 0xffff_ffffL;

  private final Column column;
  private final int rows;
  private final boolean floating;
  private final boolean narrow;
  private volatile long[][][] made = new long[PARTS.length][][]; // the levels of each part

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

  /** Whether a run has fewer values than rows. */
  public boolean hasNull() {
    return column.hasNull();
  }

  /**
   * Some parts of some rows. What is read of the rows themselves is read once for all.
   *
   * @param parts which: the bits of their ordinals
   * @param first the first row
   * @param stop one past the last one
   * @param values room for {@link #AT_ONCE} values
   * @param found gets each part, by its ordinal
   */
  public void of(int parts, int first, int stop, long[] values, long[] found) {
    int begin = -(-first >> BLOCK_BITS);
    int end = stop >> BLOCK_BITS;
    boolean isWide = begin < end; // there is a block between the ends
    int before = isWide ? begin << BLOCK_BITS : stop;
    int behind = isWide ? end << BLOCK_BITS : stop;
    int count = 0; // of the values at both ends
    if (parts != COUNT) {
      count = values(first, before, values, 0);
      count = values(behind, stop, values, count);
    }
    for (Part part : PARTS) {
      if ((parts & 1 << part.ordinal()) != 0) {
        long of =
            part == Part.COUNT
                ? column.countOf(first, before) + column.countOf(behind, stop)
                : part(part, values, count);
        found[part.ordinal()] = isWide ? blocks(part, begin, end, of) : of;
      }
    }
  }

  /** What was found, and the part of some blocks. */
  private long blocks(Part part, int first, int stop, long before) {
    long[][] levels = levels(part);
    if (isExact(part)) {
      return before + levels[0][stop] - levels[0][first];
    }
    int begin = first;
    int end = stop;
    long found = before;
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

  /**
   * Read what {@link #of} reads first at an end of a run, so that it is in the CPU's caches then;
   * what is returned says nothing.
   */
  public long touch(int row) {
    long sum = Platform.getByte(null, column.near(row));
    for (long[][] levels : made) {
      sum += levels == null ? 0 : levels[0][row >> BLOCK_BITS];
    }
    return sum;
  }

  private long[][] levels(Part part) {
    long[][] found = made[part.ordinal()];
    return found == null ? make(part) : found;
  }

  private synchronized long[][] make(Part part) {
    if (made[part.ordinal()] != null) {
      return made[part.ordinal()]; // by another task, meanwhile
    }
    long[][] levels = isExact(part) ? new long[][] {sums(part)} : nodes(part);
    long[][][] all = made.clone();
    all[part.ordinal()] = levels;
    made = all;
    return levels;
  }

  private static boolean isExact(Part part) {
    return part == Part.COUNT || part == Part.WHOLE || part == Part.HIGH || part == Part.LOW;
  }

  /** The sum of all blocks before each one, and of all. */
  private long[] sums(Part part) {
    long[] sums = new long[-(-rows >> BLOCK_BITS) + 1];
    long[] values = new long[AT_ONCE];
    for (int node = 0; node < sums.length - 1; node++) {
      int first = node << BLOCK_BITS;
      int stop = Math.min(rows - first, 1 << BLOCK_BITS) + first;
      sums[node + 1] = sums[node] + block(part, first, stop, values);
    }
    return sums;
  }

  private long[][] nodes(Part part) {
    int depth = 1;
    for (int nodes = -(-rows >> BLOCK_BITS); nodes > 1 << FAN_BITS; nodes = -(-nodes >> FAN_BITS)) {
      depth++;
    }
    long[][] levels = new long[depth][];
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
                ? block(part, first, stop, values)
                : nodes(part, levels[level - 1], first, stop, nothing(part));
      }
      below = levels[level].length;
    }
    return levels;
  }

  private static long nothing(Part part) {
    return switch (part) {
      case LEAST -> Long.MAX_VALUE;
      case GREATEST -> Long.MIN_VALUE;
      default -> 0; // the bits of 0.0, too
    };
  }

  private long block(Part part, int first, int stop, long[] values) {
    return part == Part.COUNT
        ? column.countOf(first, stop)
        : part(part, values, values(first, stop, values, 0));
  }

  /**
   * The values of at most {@link #AT_ONCE} rows, those of nulls left out.
   *
   * @param place where the first one is put
   * @return the place behind the last one
   */
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

  /** The part of some values. */
  private long part(Part part, long[] values, int count) {
    if (!floating && part != Part.HIGH && part != Part.LOW || part == Part.TOTAL) {
      return nodes(part, values, 0, count, nothing(part));
    }
    long found = nothing(part);
    for (int i = 0; i < count; i++) {
      long value = values[i];
      switch (part) {
        case HIGH -> found += value >> 32;
        case LOW -> found += value & LOWER;
        case LEAST -> found = Math.min(found, Code.of(Double.longBitsToDouble(value)));
        default -> found = Math.max(found, Code.of(Double.longBitsToDouble(value)));
      }
    }
    return found;
  }

  /** What was found, and the part of nodes of a level. */
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
