package bsjoin.jvm;

import java.util.ArrayList;
import java.util.Arrays;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.SplittableRandom;
import org.apache.spark.sql.catalyst.expressions.UnsafeRow;
import org.apache.spark.sql.catalyst.expressions.codegen.UnsafeRowWriter;
import org.apache.spark.unsafe.Platform;
import org.apache.spark.unsafe.types.UTF8String;

/**
 * Finds keys of a stored table, in a random order, one by one and in batches, and makes a row of each
 * key, its number and the columns {@code amount} and {@code name} that are found, as generated code
 * does. Prints the nanoseconds a key of each way, by round, and fails if two ways make other rows.
 *
 * <p>It is of the package of the classes that it measures, so that it reads a table by them. What
 * finds a batch in stages reads the index as {@link Segment} does, without its checks.
 */
public final class BatchedKeys {
  private static final int CHUNK = 4096; // rows of a columnar batch
  private static final int HOT = 256; // keys whose rows the CPU's caches keep

  private final Version version;
  private final Columns columns;
  private final Index[] indexes;
  private final long[] keys;
  private final long[] found = new long[CHUNK];
  private final long[] hashes = new long[CHUNK];
  private final long[] buckets = new long[CHUNK];
  private final long[] there = new long[CHUNK];
  private final int[] rows = new int[CHUNK];
  private final int[] numbers = new int[CHUNK]; // of segments
  private final long[] amounts = new long[CHUNK];
  private final UTF8String[] names = new UTF8String[CHUNK];
  private final UnsafeRowWriter writer = new UnsafeRowWriter(4, 32);
  private long sum;

  /** A way to find the keys from one place of all to another. */
  private interface Way {
    void find(int from, int to);
  }

  private BatchedKeys(String path, int count, long step, int distinct) {
    StoredTable table = StoredTable.newest(path, path, 0);
    Manifest manifest = table.analyzed;
    StoredVersion stored = new StoredVersion(table, manifest);
    version = stored.open();
    columns = new Columns(stored, manifest, Arrays.asList("amount", "name")).open();
    indexes = new Index[manifest.segments.length];
    for (int i = 0; i < indexes.length; i++) {
      indexes[i] = new Index(version, i);
    }
    long size = distinct == 0 ? manifest.rows() : distinct;
    keys = new SplittableRandom(7).longs(count, 0, size).map(key -> key * step).toArray();
  }

  /** The arrays of a segment's index. */
  private static final class Index {
    final long first; // hash of the segment
    private final Mapping file;
    private final long starts;
    private final long directory;
    private final long base;
    private final long size; // of the directory
    private final int shift;
    final int rows;

    Index(Version version, int number) {
      Manifest.SegmentInfo info = version.manifest.segments[number];
      if (info.firstKey != null || info.longestRun > 1) {
        throw new IllegalArgumentException("measured are keys that are unique and far apart");
      }
      first = info.firstHash;
      rows = (int) info.rows;
      file = version.map(info, 0);
      ArrowFile arrow = new ArrowFile(file);
      starts = arrow.offset(3, 8L * (rows + 1));
      directory = arrow.offset(7, 8);
      size = arrow.length(7) / 4 - 1;
      base = file.getLong(arrow.offset(13, 8));
      shift = file.getInt(arrow.offset(15, 4));
    }

    /** Where the directory has the first row for a hash; -1 if no row has one like it. */
    long bucket(long hash) {
      long bucket = ((hash ^ Long.MIN_VALUE) - base) >>> shift;
      return bucket < size ? bucket : -1;
    }

    int row(long bucket) {
      return bucket < 0 ? rows : file.getInt(directory + 4 * bucket);
    }

    long hash(int row) {
      return file.getLong(starts + 8L * row);
    }
  }

  // -- one by one ----------------------------------------------------------------------------------

  private void oneByOne(int from, int to) {
    for (int i = from; i < to; i++) {
      write(i, version.findInteger(keys[i]));
    }
  }

  private void write(int number, long reference) {
    if (reference < 0) {
      return;
    }
    Column amount = columns.column(0, reference);
    long value = amount.getLong(Columns.row(reference));
    Column name = columns.column(1, reference);
    write(number, value, name.getText(Columns.row(reference)));
  }

  private void write(int number, long amount, UTF8String name) {
    writer.reset();
    writer.write(0, keys[number]);
    writer.write(1, (long) number);
    writer.write(2, amount);
    writer.write(3, name);
    UnsafeRow row = writer.getRow();
    long last = row.getBaseOffset() + row.getSizeInBytes() - 8;
    sum = 31 * sum + row.getLong(2) + Platform.getLong(row.getBaseObject(), last);
  }

  // -- in batches ----------------------------------------------------------------------------------

  private void findInLoop(int from, int to) {
    for (int i = from; i < to; i++) {
      found[i - from] = version.findInteger(keys[i]);
    }
  }

  /** All places in the directory, then all rows that it has there, then all hashes of these. */
  private void findInStages(int from, int to) {
    int count = to - from;
    for (int i = 0; i < count; i++) {
      long hash = Segment.hash(keys[from + i]);
      int number = indexes.length - 1;
      while (number > 0 && indexes[number].first > hash) {
        number--;
      }
      hashes[i] = hash;
      numbers[i] = number;
      buckets[i] = indexes[number].bucket(hash);
    }
    for (int i = 0; i < count; i++) {
      rows[i] = indexes[numbers[i]].row(buckets[i]);
    }
    for (int i = 0; i < count; i++) {
      there[i] = indexes[numbers[i]].hash(rows[i]);
    }
    long slot = version.manifest.version % Version.SLOTS;
    for (int i = 0; i < count; i++) {
      Index index = indexes[numbers[i]];
      int row = rows[i];
      long hash = there[i];
      while (hash < hashes[i]) {
        hash = index.hash(++row);
      }
      boolean isFound = hash == hashes[i] && row < index.rows;
      found[i] = isFound ? slot << 51 | (long) numbers[i] << 31 | row : Version.MISSING;
    }
  }

  private void writeEach(int from, int to) {
    for (int i = from; i < to; i++) {
      write(i, found[i - from]);
    }
  }

  /** All amounts, then where all names are, then the first byte of each. */
  private void readColumns(int count) {
    for (int i = 0; i < count; i++) {
      long reference = found[i];
      amounts[i] =
          reference < 0 ? 0 : columns.column(0, reference).getLong(Columns.row(reference));
    }
    for (int i = 0; i < count; i++) {
      long reference = found[i];
      names[i] =
          reference < 0 ? null : columns.column(1, reference).getText(Columns.row(reference));
    }
    long bytes = 0;
    for (int i = 0; i < count; i++) {
      UTF8String name = names[i];
      bytes += name == null ? 0 : Platform.getByte(name.getBaseObject(), name.getBaseOffset());
    }
    there[0] = bytes; // so that they are read
  }

  private void loop(int from, int to) {
    findInLoop(from, to);
    writeEach(from, to);
  }

  private void stages(int from, int to) {
    findInStages(from, to);
    writeEach(from, to);
  }

  private void stagesAndColumns(int from, int to) {
    findInStages(from, to);
    readColumns(to - from);
    for (int i = from; i < to; i++) {
      if (found[i - from] >= 0) {
        write(i, amounts[i - from], names[i - from]);
      }
    }
  }

  /** What needs no other generated code: all is read once before, and found there one by one. */
  private void ahead(int from, int to) {
    findInStages(from, to);
    readColumns(to - from);
    oneByOne(from, to);
  }

  private void keysInLoop(int from, int to) {
    findInLoop(from, to);
    addFound(to - from);
  }

  private void keysInStages(int from, int to) {
    findInStages(from, to);
    addFound(to - from);
  }

  private void addFound(int count) {
    for (int i = 0; i < count; i++) {
      sum = 31 * sum + found[i];
    }
  }

  // -- measuring -----------------------------------------------------------------------------------

  private static Way inBatches(int size, Way way) {
    return (from, to) -> {
      for (int at = from; at < to; at += size) {
        way.find(at, Math.min(to, at + size));
      }
    };
  }

  private Map<String, Way> ways() {
    Map<String, Way> all = new LinkedHashMap<>();
    all.put("one by one", this::oneByOne);
    for (int size : new int[] {64, 256, 1000}) {
      all.put("in a loop, " + size, inBatches(size, this::loop));
      all.put("in stages, " + size, inBatches(size, this::stages));
      all.put("in stages with columns, " + size, inBatches(size, this::stagesAndColumns));
    }
    all.put("read ahead, 1000", inBatches(1000, this::ahead));
    all.put("read ahead, 4096", this::ahead);
    all.put("keys alone, in a loop", inBatches(1000, this::keysInLoop));
    all.put("keys alone, in stages", inBatches(1000, this::keysInStages));
    return all;
  }

  /** Nanoseconds a key. */
  private double time(Way way) {
    sum = 0;
    long begin = System.nanoTime();
    for (int from = 0; from < keys.length; from += CHUNK) {
      way.find(from, Math.min(keys.length, from + CHUNK));
    }
    return (System.nanoTime() - begin) / (double) keys.length;
  }

  /** Measure: the path of a table, how many keys, rounds, and the step from key to key. */
  public static void main(String[] words) {
    int count = Integer.parseInt(words[1]);
    int rounds = Integer.parseInt(words[2]);
    long step = Long.parseLong(words[3]);
    BatchedKeys random = new BatchedKeys(words[0], count, step, 0);
    BatchedKeys hot = new BatchedKeys(words[0], count, step, HOT);
    Map<String, BatchedKeys> owners = new LinkedHashMap<>();
    Map<String, Way> ways = new LinkedHashMap<>();
    random.ways().forEach((name, way) -> {
      ways.put(name, way);
      owners.put(name, random);
    });
    String hotOne = "one by one, " + HOT + " hot keys";
    ways.put(hotOne, hot::oneByOne);
    owners.put(hotOne, hot);
    Map<String, List<String>> times = new LinkedHashMap<>();
    Map<String, Long> sums = new LinkedHashMap<>(); // of what must be equal
    for (int round = -2; round < rounds; round++) { // two to compile, and to map all pages
      for (Map.Entry<String, Way> one : ways.entrySet()) {
        String name = one.getKey();
        double spent = owners.get(name).time(one.getValue());
        String same = name.equals(hotOne) ? name : name.startsWith("keys") ? "keys" : "rows";
        long right = sums.computeIfAbsent(same, key -> owners.get(name).sum);
        if (owners.get(name).sum != right || right == 0) {
          throw new AssertionError(name + " differs from other ways to make the " + same);
        }
        if (round >= 0) {
          times.computeIfAbsent(name, key -> new ArrayList<>()).add(String.format("%.2f", spent));
        }
      }
    }
    times.forEach((name, spent) -> System.out.println(name + "\t" + String.join(" ", spent)));
  }
}
