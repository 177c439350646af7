package bsjoin.jvm.storage;

import org.apache.spark.unsafe.Platform;

/**
 * An open version of a table.
 *
 * <p>A row has one number across versions and segments, a <em>reference</em>: the version's number
 * modulo {@link #SLOTS}, the segment, and the row in it. It is a long, so that it passes through
 * generated code without an object, and means the same in every process.
 */
public final class Version {
  public static final long MISSING = -1;
  static final int SLOTS = 1 << 16; // a version a second: those of 18 hours

  private static final int ROW_BITS = 31;
  private static final int SEGMENT_BITS = 16;
  private static final int SLOT_SHIFT = ROW_BITS + SEGMENT_BITS;
  private static final long ROW_MASK = (1L << ROW_BITS) - 1;
  private static final int SEGMENT_MASK = (1 << SEGMENT_BITS) - 1;

  public final Manifest manifest;
  private final long slot;
  private final Segment[] segments;

  /** Map the indexes of all segments. */
  Version(Storage storage, Manifest manifest) {
    this.manifest = manifest;
    slot = manifest.version % SLOTS;
    segments = new Segment[manifest.segments.length];
    manifest.check(segments.length <= SEGMENT_MASK, "it has too many segments");
    for (int i = 0; i < segments.length; i++) {
      Manifest.Rows next = manifest.segments[i];
      segments[i] = new Segment(storage, manifest, next);
      boolean isInOrder = i == 0 || segments[i - 1].lastHash < next.firstHash;
      manifest.check(isInOrder, "it lists '" + next.name + "' out of order");
    }
  }

  /** Open the columns that another version has open, so that no row waits for them. */
  void openColumnsOf(Version other) {
    boolean same = manifest.columns.equals(other.manifest.columns);
    if (other.segments.length > 0 && same && manifest.keys.equals(other.manifest.keys)) {
      for (Segment segment : segments) {
        segment.openColumnsOf(other.segments[0]);
      }
    }
  }

  /** The reference of the first row with a hash; {@link #MISSING} if there is none. */
  public long find(long hash) {
    int number = segments.length == 1 ? 0 : manifest.segmentOf(hash);
    if (number < 0) {
      return MISSING;
    }
    return reference(number, segments[number].find(hash));
  }

  /** The reference of the first row with an integer as its key; {@link #MISSING} if none. */
  public long findInteger(long key) {
    if (segments.length == 1 && segments[0].isByKey) {
      return reference(0, segments[0].find(key));
    }
    long hash = Segment.hash(key);
    int number = segments.length == 1 ? 0 : manifest.segmentOf(hash);
    if (number < 0) {
      return MISSING;
    }
    Segment segment = segments[number];
    return reference(number, segment.find(segment.isByKey ? key : hash));
  }

  /** Where keys were found so far: see {@link #find(long[], boolean, int, Steps, long[])}. */
  public static final class Steps {
    private final long[] searched;
    private final long[] buckets;
    private final int[] numbers; // of segments
    private final int[] rows;
    private final long[] addresses; // 0: nothing is read there
    private long read; // keeps the compiler from leaving out what is read for nothing else

    public Steps(int size) {
      searched = new long[size];
      buckets = new long[size];
      numbers = new int[size];
      rows = new int[size];
      addresses = new long[size];
    }
  }

  /**
   * {@link #findInteger} or {@link #find(long)} of many keys, in steps that wait for memory together.
   * What reads it is a loop of its own: the shorter, the more of its reads a CPU waits for at once.
   *
   * @param keys the keys, or their hashes
   * @param areIntegers whether they are keys
   * @param count how many
   * @param steps of at least as many
   * @param found gets the references
   */
  public void find(long[] keys, boolean areIntegers, int count, Steps steps, long[] found) {
    long[] addresses = steps.addresses;
    for (int i = 0; i < count; i++) {
      long hash = areIntegers ? Segment.hash(keys[i]) : keys[i];
      int number = segments.length == 1 ? 0 : manifest.segmentOf(hash);
      steps.numbers[i] = number;
      steps.searched[i] = number >= 0 && segments[number].isByKey ? keys[i] : hash;
      long bucket = number < 0 ? -1 : segments[number].bucket(steps.searched[i]);
      steps.buckets[i] = bucket;
      addresses[i] = bucket < 0 ? 0 : segments[number].entry(bucket);
    }
    for (int i = 0; i < count; i++) {
      steps.rows[i] = addresses[i] == 0 ? 0 : Platform.getInt(null, addresses[i]);
    }
    for (int i = 0; i < count; i++) {
      long bucket = steps.buckets[i];
      Segment segment = bucket < 0 ? null : segments[steps.numbers[i]];
      steps.rows[i] = segment == null ? -1 : segment.begin(bucket, steps.rows[i]);
      addresses[i] = segment == null ? 0 : segment.first(steps.rows[i]);
    }
    for (int i = 0; i < count; i++) {
      steps.read += addresses[i] == 0 ? 0 : Platform.getLong(null, addresses[i]);
    }
    for (int i = 0; i < count; i++) {
      int number = steps.numbers[i];
      int row = steps.rows[i];
      row = row < 0 ? -1 : segments[number].find(steps.searched[i], steps.buckets[i], row);
      found[i] = reference(number, row);
    }
  }

  private long reference(int segment, int row) {
    return row < 0 ? MISSING : slot << SLOT_SHIFT | (long) segment << ROW_BITS | row;
  }

  /** The reference of the next run's first row with the same hash; {@link #MISSING} if none. */
  public long next(long reference, long hash) {
    int row = segment(reference).next(row(reference), hash);
    return row < 0 ? MISSING : reference & ~ROW_MASK | row;
  }

  /** Whether a reference is to a row of this version. */
  public boolean holds(long reference) {
    return reference >>> SLOT_SHIFT == slot;
  }

  /**
   * The segment of a reference to a row of this version.
   *
   * @throws IllegalStateException if the row is not there: another process that has found it has
   *     read other files
   */
  public Segment segment(long reference) {
    int number = segmentNumber(reference);
    if (number >= segments.length || row(reference) >= segments[number].rows) {
      manifest.check(
          false, "the row " + row(reference) + " of the segment " + number + " is not there");
    }
    return segments[number];
  }

  /** The row of a reference in its segment. */
  public static int row(long reference) {
    return (int) (reference & ROW_MASK);
  }

  /** The number of the segment of a reference. */
  public static int segmentNumber(long reference) {
    return (int) (reference >>> ROW_BITS) & SEGMENT_MASK;
  }

  /** The number, modulo {@link #SLOTS}, of the version that a reference belongs to. */
  static int slot(long reference) {
    return (int) (reference >>> SLOT_SHIFT);
  }
}
