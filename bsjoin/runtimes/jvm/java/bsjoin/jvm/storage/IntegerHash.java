package bsjoin.jvm.storage;

/** The inverse of {@link Segment#hash(long)}, as that of {@code bsjoin/index/integer_hash.py}. */
final class IntegerHash {
  private static final long P1 = 0x9E3779B185EBCA87L; // the primes of XXH64
  private static final long P2 = 0xC2B2AE3D27D4EB4FL;
  private static final long P3 = 0x165667B19E3779F9L;
  private static final long P4 = 0x85EBCA77C2B2AE63L;
  private static final long P5 = 0x27D4EB2F165667C5L;
  private static final long BEGIN = Segment.SEED + P5 + Long.BYTES;
  private static final long N1 = reciprocal(P1);
  private static final long N2 = reciprocal(P2);
  private static final long N3 = reciprocal(P3);

  private IntegerHash() {}

  /** The integer that has a hash: each has one. */
  static long inverse(long hash) {
    long h = (hash ^ hash >>> 32) * N3;
    h = (h ^ h >>> 29 ^ h >>> 58) * N2;
    h = ((h ^ h >>> 33) - P4) * N1;
    h = (Long.rotateRight(h, 27) ^ BEGIN) * N1;
    return Long.rotateRight(h, 31) * N2;
  }

  /** What an odd number is multiplied by to give 1, modulo 2^64: each step doubles the right bits. */
  private static long reciprocal(long odd) {
    long found = odd;
    for (int bits = 3; bits < Long.SIZE; bits *= 2) {
      found *= 2 - odd * found;
    }
    return found;
  }
}
