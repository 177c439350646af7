package bsjoin.jvm.storage;

import java.util.ArrayList;
import java.util.List;
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
 * <p>The rows are in blocks of 16, which are the nodes of the lowest level. Of 16 nodes that follow
 * each other one is made for the next level, and each of them knows what there is of those up to it
 * and of those from it on: so nodes in two groups are one value of the first group, one of the last
 * and the whole groups between them. What is added up exactly has the sum of all blocks before each
 * one instead. The levels of a part are made when it is first needed, from the column itself, and are
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
    GREATEST
  }

  private static final Part[] PARTS = Part.values();
  private static final int COUNT = 1 << Part.COUNT.ordinal();
  private static final int EXTREMES = 1 << Part.LEAST.ordinal() | 1 << Part.GREATEST.ordinal();
  private static final int BLOCK_BITS = 4;

  /** How many values are read at once: the ends of two blocks. */
  public static final int AT_ONCE = 2 << BLOCK_BITS;

  private static final int FAN_BITS = 4;
  private static final long LOWER = 0xffff_ffffL;

  private final Column column;
  private final int rows;
  private final boolean floating;
  private final boolean narrow;
  private volatile Level[][] made = new Level[PARTS.length][]; // of each part, the lowest one first

  /**
   * A level, or of what is added up exactly the only one.
   *
   * @param nodes the part of each node; of what is exact, of all blocks before each
   * @param ends of each node the part of its group up to it, and that of its group from it on; of
   *     what is exact the nodes
   */
  private record Level(long[] nodes, long[] ends) {}

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
   * @param found gets each part, by its ordinal; others are any numbers
   */
  public void of(int parts, int first, int stop, long[] values, long[] found) {
    int begin = -(-first >> BLOCK_BITS);
    int end = stop >> BLOCK_BITS;
    boolean isWide = begin < end; // there is a block between the ends
    int before = isWide ? begin << BLOCK_BITS : stop;
    int behind = isWide ? end << BLOCK_BITS : stop;
    if (parts != COUNT) {
      int count = values(first, before, values, 0);
      count = values(behind, stop, values, count);
      parts(parts, values, count, found);
    }
    if ((parts & COUNT) != 0) {
      found[Part.COUNT.ordinal()] = column.countOf(first, before) + column.countOf(behind, stop);
    }
    if (isWide) {
      for (Part part : PARTS) {
        if ((parts & 1 << part.ordinal()) != 0) {
          found[part.ordinal()] = blocks(part, begin, end, found[part.ordinal()]);
        }
      }
    }
  }

  /** What was found, and the part of some blocks. */
  private long blocks(Part part, int first, int stop, long before) {
    Level[] levels = levels(part);
    if (isExact(part)) {
      return before + levels[0].nodes[stop] - levels[0].nodes[first];
    }
    int begin = first;
    int end = stop;
    long found = before;
    for (int level = 0; begin < end; level++) {
      int group = begin >> FAN_BITS;
      int last = end - 1 >> FAN_BITS;
      if (group == last) { // on the highest level always
        return nodes(part, levels[level].nodes, begin, end, found);
      }
      long[] ends = levels[level].ends;
      found = joined(part, joined(part, found, ends[2 * begin + 1]), ends[2 * (end - 1)]);
      begin = group + 1;
      end = last;
    }
    return found;
  }

  /**
   * Read what {@link #of} reads first at ends of runs, so that it is in the CPU's caches then; what
   * is returned says nothing. A loop for each array: the CPU waits for many of its rows at once.
   *
   * @param references of rows that the segment has
   * @param first the first of them that counts
   * @param stop one past the last one
   */
  public long touch(long[] references, int first, int stop) {
    long sum = 0;
    for (int i = first; i < stop; i++) {
      sum += Platform.getByte(null, column.near(Version.row(references[i])));
    }
    for (Part part : PARTS) {
      Level[] levels = made[part.ordinal()];
      if (levels != null) {
        long[] ends = levels[0].ends;
        int shift = isExact(part) ? BLOCK_BITS : BLOCK_BITS - 1;
        for (int i = first; i < stop; i++) {
          sum += ends[Version.row(references[i]) >> shift];
        }
      }
    }
    return sum;
  }

  private Level[] levels(Part part) {
    Level[] found = made[part.ordinal()];
    return found == null ? make(part) : found;
  }

  private synchronized Level[] make(Part part) {
    if (made[part.ordinal()] != null) {
      return made[part.ordinal()]; // by another task, meanwhile
    }
    Level[][] all = made.clone();
    all[part.ordinal()] = isExact(part) ? new Level[] {sums(part)} : levelsOf(part);
    made = all;
    return all[part.ordinal()];
  }

  private static boolean isExact(Part part) {
    return part == Part.COUNT || part == Part.WHOLE || part == Part.HIGH || part == Part.LOW;
  }

  /** The part of each block. */
  private long[] blocks(Part part) {
    long[] blocks = new long[-(-rows >> BLOCK_BITS)];
    long[] values = new long[AT_ONCE];
    long[] found = new long[PARTS.length];
    for (int block = 0; block < blocks.length; block++) {
      int first = block << BLOCK_BITS;
      int stop = Math.min(rows - first, 1 << BLOCK_BITS) + first;
      if (part == Part.COUNT) {
        blocks[block] = column.countOf(first, stop);
      } else {
        int count = values(first, stop, values, 0);
        parts(1 << part.ordinal(), values, count, found);
        blocks[block] = found[part.ordinal()];
      }
    }
    return blocks;
  }

  /** The sum of all blocks before each one, and of all. */
  private Level sums(Part part) {
    long[] blocks = blocks(part);
    long[] sums = new long[blocks.length + 1];
    for (int block = 0; block < blocks.length; block++) {
      sums[block + 1] = sums[block] + blocks[block];
    }
    return new Level(sums, sums);
  }

  private Level[] levelsOf(Part part) {
    List<Level> levels = new ArrayList<>();
    long[] nodes = blocks(part);
    while (true) {
      long[] ends = ends(part, nodes);
      levels.add(new Level(nodes, ends));
      if (nodes.length <= 1 << FAN_BITS) {
        return levels.toArray(new Level[0]);
      }
      nodes = groups(ends);
    }
  }

  /** The nodes of the next level: the last one of a group knows what there is of all of it. */
  private static long[] groups(long[] ends) {
    int nodes = ends.length / 2;
    long[] groups = new long[-(-nodes >> FAN_BITS)];
    for (int group = 0; group < groups.length; group++) {
      int stop = Math.min(group + 1 << FAN_BITS, nodes);
      groups[group] = ends[2 * (stop - 1)];
    }
    return groups;
  }

  private static long[] ends(Part part, long[] nodes) {
    long[] ends = new long[2 * nodes.length];
    int within = (1 << FAN_BITS) - 1;
    for (int node = 0; node < nodes.length; node++) {
      boolean isFirst = (node & within) == 0;
      ends[2 * node] = isFirst ? nodes[node] : joined(part, ends[2 * node - 2], nodes[node]);
    }
    for (int node = nodes.length - 1; node >= 0; node--) {
      boolean isLast = (node & within) == within || node == nodes.length - 1;
      ends[2 * node + 1] = isLast ? nodes[node] : joined(part, nodes[node], ends[2 * node + 3]);
    }
    return ends;
  }

  private static long nothing(Part part) {
    return switch (part) {
      case LEAST -> Long.MAX_VALUE;
      case GREATEST -> Long.MIN_VALUE;
      default -> 0; // the bits of 0.0, too
    };
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

  /** What was found, and the part of nodes of a level. */
  private static long nodes(Part part, long[] level, int first, int stop, long before) {
    long found = before;
    for (int node = first; node < stop; node++) {
      found = joined(part, found, level[node]);
    }
    return found;
  }

  private static long joined(Part part, long one, long other) {
    return switch (part) {
      case LEAST -> Math.min(one, other);
      case GREATEST -> Math.max(one, other);
      case TOTAL ->
          Double.doubleToRawLongBits(
              Double.longBitsToDouble(one) + Double.longBitsToDouble(other));
      default -> one + other;
    };
  }
}
