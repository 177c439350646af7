package bsjoin.jvm.storage;

import java.util.ArrayList;
import java.util.Arrays;
import java.util.BitSet;
import java.util.List;
import org.apache.spark.unsafe.Platform;

/**
 * An open version of a table: the segments of its base, then those of layers, which have all rows
 * that their keys have now, then those of keys that have no rows any more. A key is searched in the
 * layers first, the newest before the others, and what the base has of it counts only if none of
 * them has the key. Keys that no layer can have are told by {@link KeyBits}.
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
  private final int bases; // segments below all layers
  private final int present; // segments with rows
  private final int[] above; // the numbers of those that are not of the base, the newest first
  private final KeyBits changed; // the keys of layers; null without layers
  private BitSet[] hidden; // rows, by segment; made when they are first asked for

  /** Map the indexes of all segments but those that other versions have open, and checked. */
  Version(Storage storage, Manifest manifest, Iterable<Version> opened) {
    this.manifest = manifest;
    slot = manifest.version % SLOTS;
    bases = manifest.segments.length;
    present = manifest.shown().length;
    List<Manifest.Rows> listed = manifest.indexed().toList();
    manifest.check(listed.size() <= SEGMENT_MASK, "it has too many segments");
    segments = new Segment[listed.size()];
    for (int i = 0; i < segments.length; i++) {
      Segment shared = ofAnother(listed.get(i), opened);
      segments[i] = shared == null ? new Segment(storage, manifest, listed.get(i)) : shared;
      boolean isInOrder =
          i == 0 || i >= bases || segments[i - 1].lastHash < listed.get(i).firstHash;
      manifest.check(isInOrder, "it lists '" + listed.get(i).name + "' out of order");
    }
    above = manifest.above();
    List<Segment> layers = new ArrayList<>();
    for (int number : above) {
      layers.add(segments[number]);
    }
    changed = layers.isEmpty() ? null : new KeyBits(layers, manifest.isByInteger());
  }

  private Segment ofAnother(Manifest.Rows rows, Iterable<Version> opened) {
    for (Version other : opened) {
      if (other.manifest.hasFormOf(manifest)) {
        for (Segment segment : other.segments) {
          if (segment.info.isSame(rows)) {
            return segment;
          }
        }
      }
    }
    return null;
  }

  /** How many segments there are, those of keys that are gone included. */
  public int size() {
    return segments.length;
  }

  /** Open the columns that another version has open, so that no row waits for them. */
  void openColumnsOf(Version other) {
    boolean same = manifest.columns.equals(other.manifest.columns);
    if (other.segments.length > 0 && same && manifest.keys.equals(other.manifest.keys)) {
      for (int i = 0; i < present; i++) {
        segments[i].openColumnsOf(other.segments[0]);
      }
    }
  }

  /**
   * The reference of the first row with a hash; {@link #MISSING} if there is none. Keys that are one
   * integer each are found by {@link #findInteger}.
   *
   * <p>Where keys are compared, it may be that of a key that is gone: see {@link #ifPresent}.
   */
  public long find(long hash) {
    if (changed != null && changed.mayHave(hash)) {
      long found = inLayers(0, hash, hash);
      if (found != MISSING) {
        return manifest.compared.length == 0 ? ifPresent(found) : found;
      }
    }
    return inBase(hash, hash);
  }

  /** The first row with a hash in the base, or with a key where that has the order of the keys. */
  private long inBase(long hash, long key) {
    int number = bases == 1 ? 0 : manifest.segmentOf(hash);
    if (number < 0) {
      return MISSING;
    }
    Segment segment = segments[number];
    return reference(number, segment.find(segment.isByKey ? key : hash));
  }

  /** The reference of the first row with an integer as its key; {@link #MISSING} if none. */
  public long findInteger(long key) {
    if (changed != null && changed.mayHave(key)) {
      long found = inLayers(0, Segment.hash(key), key);
      if (found != MISSING) {
        return ifPresent(found);
      }
    }
    if (bases == 1 && segments[0].isByKey) {
      return reference(0, segments[0].find(key));
    }
    return inBase(Segment.hash(key), key);
  }

  /** The first row with a hash in layers, from a place among {@link #above} on. */
  private long inLayers(int place, long hash, long key) {
    for (int i = place; i < above.length; i++) {
      Segment segment = segments[above[i]];
      int row = segment.find(segment.isByKey ? key : hash);
      if (row >= 0) {
        return reference(above[i], row);
      }
    }
    return MISSING;
  }

  /** A reference that was found; {@link #MISSING} if it is that of a key that is gone. */
  public long ifPresent(long reference) {
    return reference >= 0 && segmentNumber(reference) >= present ? MISSING : reference;
  }

  /** The rows of a segment whose keys have other rows in a layer above it, or none; null without. */
  public BitSet hidden(int number) {
    BitSet found = changed == null ? null : hidden()[number];
    return found == null || found.isEmpty() ? null : found;
  }

  /** The same of all segments: the keys of layers are looked up in what is below. */
  private synchronized BitSet[] hidden() {
    if (hidden != null) {
      return hidden;
    }
    BitSet[] found = new BitSet[present];
    Arrays.setAll(found, i -> new BitSet());
    for (int place = 0; place < above.length; place++) {
      Segment segment = segments[above[place]];
      for (int row = 0; row < segment.rows; row = segment.end(row)) {
        long hash = segment.hash(row);
        int base = manifest.segmentOf(hash);
        if (base >= 0) {
          hide(segment, row, hash, segments[base], found[base]);
        }
        for (int i = place + 1; i < above.length; i++) {
          if (above[i] < present) {
            hide(segment, row, hash, segments[above[i]], found[above[i]]);
          }
        }
      }
    }
    hidden = found;
    return found;
  }

  /** Find the rows that a segment has of a row's key. */
  private static void hide(Segment segment, int row, long hash, Segment below, BitSet found) {
    long searched = below.isByKey ? segment.key(row) : hash;
    int at = below.find(searched);
    while (at >= 0 && !below.hasKeyOf(at, segment, row)) {
      at = below.next(at, hash);
    }
    if (at >= 0) {
      found.set(at, below.end(at));
    }
  }

  /** Where keys were found so far: see {@link #find(long[], boolean, int, Steps, long[])}. */
  public static final class Steps {
    private final long[] searched;
    private final long[] buckets;
    private final int[] numbers; // of segments
    private final int[] rows;
    private final long[] addresses; // 0: nothing is read there
    private final Points[] points; // null: the key has no row
    private final int[] ends; // of the rows of a key
    private long read; // keeps the compiler from leaving out what is read for nothing else

    public Steps(int size) {
      searched = new long[size];
      buckets = new long[size];
      numbers = new int[size];
      rows = new int[size];
      addresses = new long[size];
      points = new Points[size];
      ends = new int[size];
    }

    private void touch(int count) {
      for (int i = 0; i < count; i++) {
        read += addresses[i] == 0 ? 0 : Platform.getByte(null, addresses[i]);
      }
    }
  }

  /**
   * {@link #findInteger}, or of hashes {@link #find(long)}, of many keys, in steps that wait for memory
   * together. What reads it is a loop of its own: the shorter, the more of its reads a CPU waits for at
   * once.
   */
  public void find(long[] keys, boolean areIntegers, int count, Steps steps, long[] found) {
    long[] addresses = steps.addresses;
    for (int i = 0; i < count; i++) {
      long hash = areIntegers ? Segment.hash(keys[i]) : keys[i];
      int number = bases == 1 ? 0 : manifest.segmentOf(hash);
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
    if (changed != null) {
      findChanged(keys, areIntegers, count, found);
    }
  }

  private void findChanged(long[] keys, boolean areIntegers, int count, long[] found) {
    for (int i = 0; i < count; i++) {
      if (changed.mayHave(keys[i])) {
        long hash = areIntegers ? Segment.hash(keys[i]) : keys[i];
        long newest = inLayers(0, hash, keys[i]);
        if (newest != MISSING) {
          found[i] = manifest.compared.length == 0 ? ifPresent(newest) : newest;
        }
      }
    }
  }

  /**
   * {@link Points#notBelow} of many codes, in steps like those of {@link #find(long[], boolean, int,
   * Steps, long[])}.
   *
   * @param found references of the keys' first rows
   * @param isOne whether they are all the same
   * @param codes one for each
   * @param rows gets the rows of those that are found
   * @param back how many rows before it the row is whose reference is wanted
   * @param near gets it, or that of the nearest row of the key
   */
  public void search(
      long[] found, boolean isOne, long[] codes, int count, Steps steps, int[] rows, int back,
      long[] near) {
    runs(found, isOne, count, steps);
    searchAgain(found, codes, count, steps, rows, back, near);
  }

  /** Find the rows of the keys. */
  private void runs(long[] found, boolean isOne, int count, Steps steps) {
    long[] addresses = steps.addresses;
    Points[] points = steps.points;
    int[] ends = steps.ends;
    for (int i = 0; i < count; i++) {
      // What is found ahead is not compared yet: it may be of a key that is gone.
      Segment segment = ifPresent(found[i]) < 0 ? null : segment(found[i]);
      steps.rows[i] = row(found[i]);
      points[i] = segment == null ? null : segment.points();
      ends[i] = segment != null && isOne ? segment.end(steps.rows[i]) : 0;
      addresses[i] = segment == null ? 0 : segment.run(steps.rows[i]);
    }
    if (!isOne) {
      steps.touch(count);
      for (int i = 0; i < count; i++) {
        ends[i] = points[i] == null ? 0 : segment(found[i]).end(steps.rows[i]);
        addresses[i] = points[i] == null ? 0 : points[i].address(steps.rows[i]);
      }
      steps.touch(count);
      for (int i = 0; i < count; i++) {
        addresses[i] = points[i] == null ? 0 : points[i].address(ends[i] - 1);
      }
      steps.touch(count);
    }
  }

  /** {@link #search} for other codes, in the rows of the same keys as before. */
  public void searchAgain(
      long[] found, long[] codes, int count, Steps steps, int[] rows, int back, long[] near) {
    long[] addresses = steps.addresses;
    Points[] points = steps.points;
    int[] ends = steps.ends;
    for (int i = 0; i < count; i++) {
      int slot = points[i] == null ? -1 : points[i].slot(codes[i], steps.rows[i], ends[i]);
      steps.buckets[i] = slot;
      addresses[i] = slot < 0 ? 0 : points[i].entry(slot);
    }
    steps.touch(count);
    for (int i = 0; i < count; i++) {
      int slot = (int) steps.buckets[i];
      addresses[i] = slot < 0 ? 0 : points[i].first(slot, steps.rows[i], ends[i]);
    }
    steps.touch(count);
    for (int i = 0; i < count; i++) {
      int begin = steps.rows[i];
      near[i] = MISSING;
      addresses[i] = 0;
      if (points[i] != null) {
        rows[i] = points[i].notBelow(codes[i], (int) steps.buckets[i], begin, ends[i]);
        near[i] = found[i] - begin + Math.max(begin, Math.min(rows[i] - back, ends[i] - 1));
        // Rows before it are looked at, too, which may be on another line of the CPU's cache.
        addresses[i] = points[i].address(Math.max(begin, rows[i] - 2));
      }
    }
    steps.touch(count);
  }

  private long reference(int segment, int row) {
    return row < 0 ? MISSING : slot << SLOT_SHIFT | (long) segment << ROW_BITS | row;
  }

  /**
   * The reference of the next run's first row with the same hash, also in what is below its layer;
   * {@link #MISSING} if none.
   */
  public long next(long reference, long hash) {
    int row = segment(reference).next(row(reference), hash);
    int number = segmentNumber(reference);
    if (row >= 0 || number < bases) {
      return row < 0 ? MISSING : reference & ~ROW_MASK | row;
    }
    int place = 0;
    while (above[place] != number) {
      place++;
    }
    long below = inLayers(place + 1, hash, hash);
    return below == MISSING ? inBase(hash, hash) : below;
  }

  public boolean holds(long reference) {
    return reference >>> SLOT_SHIFT == slot;
  }

  /** The segment of a reference; an error if another process, which found it, has read other files. */
  public Segment segment(long reference) {
    int number = segmentNumber(reference);
    if (number >= segments.length || row(reference) >= segments[number].rows) {
      manifest.check(
          false, "the row " + row(reference) + " of the segment " + number + " is not there");
    }
    return segments[number];
  }

  public static int row(long reference) {
    return (int) (reference & ROW_MASK);
  }

  public static int segmentNumber(long reference) {
    return (int) (reference >>> ROW_BITS) & SEGMENT_MASK;
  }

  /** The number, modulo {@link #SLOTS}, of the version that a reference belongs to. */
  static int slot(long reference) {
    return (int) (reference >>> SLOT_SHIFT);
  }
}
