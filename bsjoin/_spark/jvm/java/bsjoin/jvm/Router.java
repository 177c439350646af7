package bsjoin.jvm;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import java.io.IOException;
import java.math.BigInteger;
import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.util.Arrays;
import java.util.Base64;
import java.util.zip.DataFormatException;
import java.util.zip.Inflater;

/**
 * A partition rule, made ready to route: {@code bsjoin/hotspot/routing.py}, which says what cells
 * are.
 */
final class Router {
  private static final int STEP_BITS = 4;
  private static final int STEPS = 1 << STEP_BITS;
  private static final int SLOT_BITS = 12;
  private static final int LARGEST = 64 << 20;
  private static final double PART = 1.0 / (1L << 40);

  private final int partitions;
  private final long[] lasts; // the last code of each cell
  private final int[] owners; // partitions, or -1 less the number of a hot key
  private final int[] directory; // the first cell of each slot of codes with the same first bits
  private final double[][] stops; // of each hot key, where the share of each partition ends
  private final int[] firsts; // of each hot key, the first of its partitions

  private Router(JsonNode rule) throws DataFormatException {
    partitions = rule.path("partitions").asInt();
    long[] boundaries = unpacked(rule.path("boundaries").asText());
    int hot = rule.path("hot").size();
    long[] codes = new long[hot];
    stops = new double[hot][];
    firsts = new int[hot];
    for (int i = 0; i < hot; i++) {
      JsonNode key = rule.path("hot").path(i);
      codes[i] = key.path(0).asLong();
      firsts[i] = key.path(1).asInt();
      stops[i] = stops(i, key.path(2));
      require(firsts[i] >= 0 && firsts[i] <= partitions - stops[i].length && stops[i].length > 0);
      require(i == 0 || codes[i - 1] < codes[i]);
    }
    require(partitions > 0 && boundaries.length == partitions - 1);
    for (int i = 1; i < boundaries.length; i++) {
      require(boundaries[i - 1] <= boundaries[i]);
    }
    lasts = cells(boundaries, codes);
    owners = new int[lasts.length];
    for (int i = 0; i < lasts.length; i++) {
      int key = Arrays.binarySearch(codes, lasts[i]);
      owners[i] = key >= 0 ? -1 - key : notBelow(boundaries, lasts[i], 0);
    }
    directory = new int[1 << SLOT_BITS];
    for (int slot = 1; slot < directory.length; slot++) {
      long begin = (long) slot << Long.SIZE - SLOT_BITS ^ Long.MIN_VALUE;
      directory[slot] = notBelow(lasts, begin, directory[slot - 1]);
    }
  }

  /**
   * The router of a rule.
   *
   * @param rule the rule as JSON, see {@code bsjoin/hotspot/rule.py}
   * @throws IllegalArgumentException it is none
   */
  static Router of(String rule) {
    try {
      return new Router(new ObjectMapper().readTree(rule));
    } catch (IOException | DataFormatException | RuntimeException e) {
      throw new IllegalArgumentException("this is not a partition rule: " + rule, e);
    }
  }

  /** How many cells there are. */
  int cells() {
    return lasts.length;
  }

  /**
   * The cell and the partition of a row: the cell times the number of partitions, plus the
   * partition.
   *
   * @param code of its key
   * @param content a hash of the whole row
   */
  long place(long code, long content) {
    int slot = (int) ((code ^ Long.MIN_VALUE) >>> Long.SIZE - SLOT_BITS);
    int cell = notBelow(lasts, code, directory[slot]);
    int owner = owners[cell];
    return (long) cell * partitions + (owner >= 0 ? owner : drawn(-1 - owner, content));
  }

  /** The partition for a row of a hot key. */
  private int drawn(int key, long content) {
    double at = key + (content >>> 24) * PART;
    double[] ends = stops[key];
    int span = 0;
    while (span < ends.length - 1 && ends[span] <= at) {
      span++;
    }
    return firsts[key] + span;
  }

  private static double[] stops(int key, JsonNode shares) {
    double[] found = new double[shares.size()];
    double sum = 0;
    for (int i = 0; i < found.length; i++) {
      sum += shares.path(i).asDouble();
      found[i] = sum;
    }
    for (int i = 0; i < found.length; i++) {
      found[i] = key + found[i] / sum;
    }
    return found;
  }

  private static long[] cells(long[] boundaries, long[] hot) {
    BigInteger least = BigInteger.valueOf(Long.MIN_VALUE);
    long[] cuts = new long[STEPS * (boundaries.length + 1) + 2 * hot.length];
    int size = 0;
    BigInteger low = least.subtract(BigInteger.ONE);
    for (int i = 0; i <= boundaries.length; i++) {
      BigInteger high =
          BigInteger.valueOf(i < boundaries.length ? boundaries[i] : Long.MAX_VALUE);
      BigInteger width = high.subtract(low);
      for (int step = 1; step <= STEPS; step++) {
        BigInteger cut = low.add(width.multiply(BigInteger.valueOf(step)).shiftRight(STEP_BITS));
        if (cut.compareTo(least) >= 0) {
          cuts[size++] = cut.longValue();
        }
      }
      low = high;
    }
    for (long code : hot) {
      cuts[size++] = code;
      if (code > Long.MIN_VALUE) {
        cuts[size++] = code - 1;
      }
    }
    return Arrays.stream(cuts, 0, size).sorted().distinct().toArray();
  }

  /** The first entry from a place on that is not below a code. */
  private static int notBelow(long[] entries, long code, int from) {
    int low = from;
    int high = from;
    for (int step = 1; high < entries.length && entries[high] < code; step <<= 1) {
      low = high + 1;
      high = Math.min(low + step, entries.length);
    }
    while (low < high) {
      int middle = (low + high) >>> 1;
      if (entries[middle] < code) {
        low = middle + 1;
      } else {
        high = middle;
      }
    }
    return low;
  }

  /** Ascending numbers, as {@code bsjoin/hotspot/packing.py} writes them. */
  private static long[] unpacked(String text) throws DataFormatException {
    Inflater inflater = new Inflater();
    byte[] bytes = new byte[1 << 10];
    int size = 0;
    try {
      inflater.setInput(Base64.getDecoder().decode(text));
      while (!inflater.finished()) {
        int more = inflater.inflate(bytes, size, bytes.length - size);
        size += more;
        require(size < LARGEST && (more > 0 || inflater.finished()));
        bytes = size == bytes.length ? Arrays.copyOf(bytes, 2 * size) : bytes;
      }
    } finally {
      inflater.end();
    }
    require(size % Long.BYTES == 0);
    long[] found = new long[size / Long.BYTES];
    byte[] number = new byte[Long.BYTES];
    for (int i = 0; i < found.length; i++) {
      for (int place = 0; place < Long.BYTES; place++) {
        number[place] = bytes[place * found.length + i];
      }
      found[i] = ByteBuffer.wrap(number).order(ByteOrder.LITTLE_ENDIAN).getLong();
      found[i] += i == 0 ? 0 : found[i - 1];
    }
    return found;
  }

  private static void require(boolean holds) {
    if (!holds) {
      throw new IllegalArgumentException("it contradicts itself");
    }
  }
}
