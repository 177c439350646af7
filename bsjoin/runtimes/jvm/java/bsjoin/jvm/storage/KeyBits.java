package bsjoin.jvm.storage;

import java.util.List;

/**
 * Which keys may be in some segments: three bits of one word for each key that is (a Bloom filter
 * whose bits of a key are in one word: F. Putze, P. Sanders, J. Singler, WEA 2007).
 *
 * <p>Keys are told by their hashes; where the key is one integer by itself, so that nearly no row
 * needs its hash. It is made when a version with layers is opened, of hashes that are checked anyway;
 * no file has it.
 */
final class KeyBits {
  private static final int BITS = 24; // for each key: about one in a thousand others passes
  private static final int LEAST = 4; // of the logarithm of the number of words
  private static final int MOST = 18; // 2 MiB
  private static final long MIX = 0x9E3779B97F4A7C15L; // 2^64 divided by the golden ratio

  private final long[] words;
  private final int shift;

  /**
   * The keys of some segments.
   *
   * @param areIntegers whether they are told by themselves
   */
  KeyBits(List<Segment> segments, boolean areIntegers) {
    long keys = segments.stream().mapToLong(segment -> segment.rows).sum();
    int log = LEAST;
    while (log < MOST && (long) Long.SIZE << log < BITS * keys) {
      log++;
    }
    shift = Long.SIZE - log;
    words = new long[1 << log];
    for (Segment segment : segments) {
      for (int row = 0; row < segment.rows; row++) {
        long mixed = mixed(areIntegers ? segment.key(row) : segment.hash(row));
        words[(int) (mixed >>> shift)] |= bits(mixed);
      }
    }
  }

  /** Whether there may be a key, or one with a hash; false only if there is none. */
  boolean mayHave(long key) {
    long mixed = mixed(key);
    long bits = bits(mixed);
    return (words[(int) (mixed >>> shift)] & bits) == bits;
  }

  /** Integers are seldom random: all bits of one change those that are looked at. */
  private static long mixed(long key) {
    long product = key * MIX;
    return (product ^ product >>> 32) * MIX;
  }

  private static long bits(long mixed) {
    return 1L << (mixed >>> 20) | 1L << (mixed >>> 26) | 1L << (mixed >>> 32);
  }
}
