package bsjoin.jvm.partitioning;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import java.io.ByteArrayInputStream;
import java.io.IOException;
import java.io.InputStream;
import java.math.BigInteger;
import java.util.Arrays;
import java.util.Base64;
import java.util.zip.InflaterInputStream;

/**
 * A partition rule, made ready to route: {@code bsjoin/partitioning/routing.py}, which says what cells
 * are.
 */
public final class Router {
  private static final int STEP_BITS = 4;
  private static final int STEPS = 1 << STEP_BITS;
  private static final int SLOT_BITS = 12;
  private static final int LARGEST = 64 << 20;
  private static final double PART = 1.0 / (1L << 40);

  private final int version;
  private final int partitions;
  private final long[] lasts; // the last code of each cell
  private final int[] owners; // partitions, or -1 less the number of a hot key
  private final int[] directory; // the first cell of each slot of codes with the same first bits
  private final double[][] stops; // of each hot key, where the share of each partition ends
  private final int[] firsts; // of each hot key, the first of its partitions

  private Router(JsonNode rule) throws IOException {
    version = rule.path("version").asInt();
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
    int partition = 0;
    for (int i = 0; i < lasts.length; i++) {
      int key = Arrays.binarySearch(codes, lasts[i]);
      while (partition < boundaries.length && boundaries[partition] < lasts[i]) {
        partition++;
      }
      owners[i] = key >= 0 ? -1 - key : partition;
    }
    directory = new int[(1 << SLOT_BITS) + 1];
    for (int slot = 0; slot < directory.length - 1; slot++) {
      directory[slot] = cell((long) slot << Long.SIZE - SLOT_BITS ^ Long.MIN_VALUE, 0, lasts.length);
    }
    directory[directory.length - 1] = lasts.length - 1;
  }

  /**
   * The router of a rule.
   *
   * @param rule the rule as JSON, see {@code bsjoin/partitioning/rule.py}
   * @throws IllegalArgumentException it is none
   */
  static Router of(String rule) {
    try {
      return new Router(new ObjectMapper().readTree(rule));
    } catch (IOException | RuntimeException e) {
      throw new IllegalArgumentException("this is not a partition rule: " + rule, e);
    }
  }

  int version() {
    return version;
  }

  int cells() {
    return lasts.length;
  }

  int partitions() {
    return partitions;
  }

  /** The cell of a row, by the code of its key. */
  int cell(long code) {
    int slot = (int) ((code ^ Long.MIN_VALUE) >>> Long.SIZE - SLOT_BITS);
    return cell(code, directory[slot], directory[slot + 1] + 1);
  }

  /** The partition of a row of a cell, by a hash of the whole row. */
  int partition(int cell, long content) {
    int owner = owners[cell];
    return owner >= 0 ? owner : drawn(-1 - owner, content);
  }

  /** The partition for a row of a hot key. */
  private int drawn(int key, long content) {
    double at = key + (content >>> 24) * PART;
    double[] ends = stops[key];
    int span = Arrays.binarySearch(ends, 0, ends.length - 1, at);
    span = span < 0 ? -span - 1 : span;
    while (span < ends.length - 1 && ends[span] <= at) { // it ends there, as shares of nothing do
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

  /** The cell of a code, which is the first whose last code is not below it. */
  private int cell(long code, int from, int to) {
    int found = Arrays.binarySearch(lasts, from, to, code);
    return found < 0 ? -found - 1 : found;
  }

  /** Ascending numbers, as {@code bsjoin/partitioning/packing.py} writes them. */
  private static long[] unpacked(String text) throws IOException {
    byte[] bytes;
    byte[] packed = Base64.getDecoder().decode(text);
    try (InputStream inflated = new InflaterInputStream(new ByteArrayInputStream(packed))) {
      bytes = inflated.readNBytes(LARGEST);
    }
    require(bytes.length < LARGEST && bytes.length % Long.BYTES == 0);
    long[] found = new long[bytes.length / Long.BYTES];
    for (int i = 0; i < found.length; i++) {
      for (int place = Long.BYTES - 1; place >= 0; place--) {
        found[i] = found[i] << Byte.SIZE | bytes[place * found.length + i] & 0xff;
      }
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
