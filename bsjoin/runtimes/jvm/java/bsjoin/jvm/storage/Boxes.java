package bsjoin.jvm.storage;

import java.util.Arrays;
import java.util.BitSet;
import java.util.stream.IntStream;

/**
 * The rows of a segment by several ranges at once, in a tree of bounds: {@code bsjoin/index/boxes.py}.
 *
 * <p>A block has, of 8 neighbours, for each dimension their least codes and then their greatest ones.
 * On the lowest level they are rows, in an order of their own inside each key; above it, blocks of the
 * level below. All of it is checked in one pass when the segment is opened.
 */
public final class Boxes {
  /** The children of a block are 2 to the power of this. */
  public static final int BITS = 3;

  static final int MOST_DIMENSIONS = 3;

  private static final int FAN = 1 << BITS;
  private static final int ORDER = 3; // buffers of the file
  private static final int BOUNDS = 7;

  private final Mapping file;
  private final int rows;
  private final long order;
  private final int dimensions;
  private final long size; // of a block in bytes
  private final long[] levels; // where each begins, and where the last one ends
  private final long[] hull; // the least and the greatest code of each dimension
  private volatile int[] without; // the rows that match nothing, ascending, when they are asked for

  Boxes(Segment segment, Mapping file, int dimensions) {
    this.file = file;
    this.dimensions = dimensions;
    ArrowFile arrow = new ArrowFile(file);
    file.check(arrow.rows == 1 && arrow.buffers() == 8, "it is no index of boxes");
    rows = segment.rows;
    size = 16L * FAN * dimensions;
    order = arrow.offset(ORDER, 4L * rows);
    levels = levels(arrow.offset(BOUNDS, 0), rows, size);
    file.check(
        arrow.length(ORDER) == 4L * rows
            && arrow.length(BOUNDS) == levels[levels.length - 1] - levels[0],
        "it has another size for rows: ",
        rows);
    validateOrder(segment);
    validateBounds();
    hull = IntStream.range(0, 2 * dimensions).mapToLong(side -> hull(height() - 1, 0, side)).toArray();
  }

  /** Where each level of blocks of this size begins, and where the last one ends. */
  static long[] levels(long begin, int rows, long size) {
    long[] found = new long[13]; // 8 to the power of 12 is more than 31 bits hold
    found[0] = begin;
    int count = 0;
    long entries = rows;
    do {
      entries = (entries + FAN - 1) / FAN;
      found[count + 1] = found[count] + size * entries;
      count++;
    } while (entries > 1);
    return Arrays.copyOf(found, count + 1);
  }

  private void validateOrder(Segment segment) {
    BitSet seen = new BitSet(rows);
    for (int begin = 0; begin < rows; ) {
      int end = segment.end(begin);
      for (int place = begin; place < end; place++) {
        int row = row(place);
        file.check(
            row >= begin && row < end && !seen.get(row),
            "a row of another key, or one again, is at place ",
            place);
        seen.set(row);
      }
      begin = end;
    }
  }

  private void validateBounds() {
    long entries = rows;
    for (int level = 0; level < height(); level++) {
      long blocks = (entries + FAN - 1) / FAN;
      for (int side = 0; side < 2 * dimensions; side++) {
        boolean isLeast = side % 2 == 0;
        for (long entry = entries; entry < blocks * FAN; entry++) {
          boolean isNone = bound(level, entry, side) == (isLeast ? Long.MAX_VALUE : Long.MIN_VALUE);
          file.check(isNone, "the bounds are not filled up at level ", level);
        }
        for (long block = 0; level + 1 < height() && block < blocks; block++) {
          boolean isHull = bound(level + 1, block, side) == hull(level, block, side);
          file.check(isHull, "the bounds are wrong at level ", level + 1);
        }
      }
      entries = blocks;
    }
  }

  /** The least, or the greatest, code of a block's entries. */
  private long hull(int level, long block, int side) {
    long found = bound(level, block * FAN, side);
    for (long entry = block * FAN + 1; entry < (block + 1) * FAN; entry++) {
      long bound = bound(level, entry, side);
      found = side % 2 == 0 ? Math.min(found, bound) : Math.max(found, bound);
    }
    return found;
  }

  private long bound(int level, long entry, int side) {
    long block = levels[level] + size * (entry >> BITS);
    return file.getLong(block + 8 * (FAN * side + (entry & FAN - 1)));
  }

  public int height() {
    return levels.length - 1;
  }

  /** The row at a place of the order. */
  public int row(int place) {
    int row = file.getInt(order + 4L * place);
    file.check(row >= 0 && row < rows, "there is no such row at place ", place);
    return row;
  }

  /** Whether all codes of a dimension are from one to another. */
  public boolean areWithin(int dimension, long from, long to) {
    return hull[2 * dimension] >= from && hull[2 * dimension + 1] <= to;
  }

  /** The first of some rows that is in no block, as it matches nothing: an interval is empty; or -1. */
  public int nextWithout(int first, int stop) {
    int[] found = without;
    if (found == null) {
      found = IntStream.range(0, rows).filter(this::isWithout).map(this::row).sorted().toArray();
      without = found;
    }
    int at = Arrays.binarySearch(found, first);
    at = at < 0 ? -at - 1 : at;
    return at < found.length && found[at] < stop ? found[at] : -1;
  }

  private boolean isWithout(int place) {
    return IntStream.range(0, dimensions)
        .anyMatch(one -> bound(0, place, 2 * one) > bound(0, place, 2 * one + 1));
  }

  /** Which entries of a block have something in common with a box, as bits. */
  public int met(int level, int block, long[] low, long[] high) {
    long at = levels[level] + size * block;
    int found = (1 << FAN) - 1;
    for (int dimension = 0; dimension < dimensions && found != 0; dimension++) {
      long from = low[dimension];
      long to = high[dimension];
      int some = 0;
      for (int entry = 0; entry < FAN; entry++, at += 8) {
        long least = file.getLong(at);
        long greatest = file.getLong(at + 8 * FAN);
        // A row that matches nothing is the wrong way round.
        some |= least <= to & greatest >= from & least <= greatest ? 1 << entry : 0;
      }
      at += 8 * FAN;
      found &= some;
    }
    return found;
  }
}
