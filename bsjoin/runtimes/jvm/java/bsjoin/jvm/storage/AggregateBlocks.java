package bsjoin.jvm.storage;

import bsjoin.jvm.storage.AggregateTree.Part;
import java.util.ArrayList;
import java.util.List;

/**
 * What there is of some parts in blocks of a column's rows that follow each other, in O(log n).
 *
 * <p>The blocks are the nodes of the lowest level. Of 16 nodes that follow each other one is made for
 * the next level, and each of them knows what there is of those up to it and of those from it on: so
 * nodes in two groups are one value of the first group, one of the last and the whole groups between
 * them. What is added up exactly has the sum of all blocks before each one instead. All that is
 * needed of a place lies side by side: where a run begins or ends the CPU waits for one line.
 */
final class AggregateBlocks {
  private static final Part[] PARTS = Part.values();
  private static final int INEXACT = -1 << Part.TOTAL.ordinal();
  private static final int FAN_BITS = 4;
  // Of a part that is not exact, in a slot:
  private static final int FROM = 0;
  private static final int UP_TO = 1;
  private static final int NODE = 2;

  /** Adds up a block's parts. */
  interface Reader {
    /** The parts of a block, by their ordinals; others are any numbers. */
    void read(int block, long[] found);
  }

  private final int parts; // the bits of their ordinals
  private final int width; // so many numbers has a slot: a power of 2, to begin a line of memory
  private final int[] places = new int[PARTS.length]; // of each part's first number in a slot
  // The lowest one first; the highest one has one group. A level has a slot for the place before each
  // of its nodes and one behind the last: of each exact part the sum of what is before (in the lowest
  // level alone), of each other one the nodes of a group from there on, those up to there, the node.
  private final long[][] levels;

  AggregateBlocks(int parts, int blocks, Reader reader) {
    this.parts = parts;
    int numbers = 0;
    for (Part part : PARTS) {
      places[part.ordinal()] = numbers;
      numbers += has(part) ? part.isExact() ? 1 : 3 : 0;
    }
    width = Integer.highestOneBit(2 * numbers - 1);
    levels = levels(blocks, reader);
  }

  private boolean has(Part part) {
    return (parts & part.bit()) != 0;
  }

  int parts() {
    return parts;
  }

  /** Read what {@link #add} reads first; what is returned says nothing. */
  long touch(int slot) {
    return levels[0][width * slot];
  }

  /** Add some blocks to what was found of some parts, by the bits of their ordinals. */
  void add(int some, int first, int stop, long[] found) {
    for (int part = 0; part < Part.TOTAL.ordinal(); part++) {
      if ((some >> part & 1) != 0) {
        long[] slots = levels[0];
        found[part] += slots[width * stop + places[part]] - slots[width * first + places[part]];
      }
    }
    int begin = first;
    int end = (some & INEXACT) == 0 ? first : stop;
    for (int level = 0; begin < end; level++) {
      long[] slots = levels[level];
      int group = begin >> FAN_BITS;
      int last = end - 1 >> FAN_BITS;
      if (group == last) { // on the highest level always
        for (int node = begin; node < end; node++) {
          join(some, slots, width * node + NODE, found);
        }
        break;
      }
      join(some, slots, width * begin + FROM, found);
      join(some, slots, width * end + UP_TO, found);
      begin = group + 1;
      end = last;
    }
  }

  /** Add what is at a place of a slot to what was found of the parts that are not exact. */
  private void join(int some, long[] slots, int place, long[] found) {
    join(some, Part.TOTAL, slots, place, found);
    join(some, Part.LEAST, slots, place, found);
    join(some, Part.GREATEST, slots, place, found);
  }

  private void join(int some, Part part, long[] slots, int place, long[] found) {
    int number = part.ordinal();
    if ((some & part.bit()) != 0) {
      found[number] = joined(part, found[number], slots[place + places[number]]);
    }
  }

  private long[][] levels(int blocks, Reader reader) {
    List<long[]> all = new ArrayList<>();
    long[] slots = lowest(blocks, reader);
    for (int nodes = blocks; ; nodes = slots.length / width - 1) {
      for (Part part : PARTS) {
        if (has(part) && !part.isExact()) {
          ends(part, slots, nodes);
        }
      }
      all.add(slots);
      if (nodes <= 1 << FAN_BITS) {
        return all.toArray(new long[0][]);
      }
      slots = groups(slots, nodes);
    }
  }

  private long[] lowest(int blocks, Reader reader) {
    long[] slots = new long[Math.multiplyExact(width, blocks + 1)];
    long[] found = new long[PARTS.length];
    for (int block = 0; block < blocks; block++) {
      reader.read(block, found);
      for (Part part : PARTS) {
        int slot = width * block + places[part.ordinal()];
        if (has(part) && part.isExact()) {
          slots[slot + width] = slots[slot] + found[part.ordinal()];
        } else if (has(part)) {
          slots[slot + NODE] = found[part.ordinal()];
        }
      }
    }
    return slots;
  }

  /** Add to a level what each node knows of its group. */
  private void ends(Part part, long[] slots, int nodes) {
    int within = (1 << FAN_BITS) - 1;
    for (int node = 0; node < nodes; node++) {
      int slot = width * node + places[part.ordinal()];
      boolean isFirst = (node & within) == 0;
      long value = slots[slot + NODE];
      slots[slot + width + UP_TO] = isFirst ? value : joined(part, slots[slot + UP_TO], value);
    }
    for (int node = nodes - 1; node >= 0; node--) {
      int slot = width * node + places[part.ordinal()];
      boolean isLast = (node & within) == within || node == nodes - 1;
      long value = slots[slot + NODE];
      slots[slot + FROM] = isLast ? value : joined(part, value, slots[slot + width + FROM]);
    }
  }

  /** The next level: behind the last node of a group is what there is of all of it. */
  private long[] groups(long[] slots, int nodes) {
    int groups = -(-nodes >> FAN_BITS);
    long[] above = new long[width * (groups + 1)];
    for (int group = 0; group < groups; group++) {
      int stop = Math.min(group + 1 << FAN_BITS, nodes);
      for (Part part : PARTS) {
        if (has(part) && !part.isExact()) {
          int place = places[part.ordinal()];
          above[width * group + place + NODE] = slots[width * stop + place + UP_TO];
        }
      }
    }
    return above;
  }

  private static long joined(Part part, long one, long other) {
    return switch (part) {
      case LEAST -> Math.min(one, other);
      case GREATEST -> Math.max(one, other);
      default ->
          Double.doubleToRawLongBits(
              Double.longBitsToDouble(one) + Double.longBitsToDouble(other));
    };
  }
}
