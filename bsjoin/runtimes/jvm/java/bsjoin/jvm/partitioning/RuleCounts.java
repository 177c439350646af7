package bsjoin.jvm.partitioning;

import bsjoin.jvm.spark.PartitionCounts;
import bsjoin.jvm.storage.Recent;
import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.io.Serializable;
import java.util.Arrays;
import java.util.Collections;
import java.util.HashMap;
import java.util.Map;
import java.util.SplittableRandom;
import java.util.StringJoiner;
import java.util.stream.LongStream;
import org.apache.spark.SparkContext;
import org.apache.spark.TaskContext;
import org.apache.spark.util.CollectionAccumulator;
import org.apache.spark.util.TaskCompletionListener;

/**
 * How many rows of a plan are in each cell of a rule and go to each partition, and a sample of their
 * keys. A task reports when it ends.
 */
final class RuleCounts implements Serializable {
  private static final int KEPT = 1 << 8;
  private static final Map<String, Long> BEFORE = // by join: the rows of the last task
      Collections.synchronizedMap(new Recent<>(KEPT));

  private final PartitionCounts reports; // the version of the rule, the lengths, cells, partitions, sample
  private final CollectionAccumulator<Object[]> names; // of codes; of classes that all sessions share

  RuleCounts(SparkContext context) {
    reports = new PartitionCounts(context);
    names = context.collectionAccumulator();
  }

  /** Tell the driver's figures: lists of numbers in texts, which are read at once. */
  void describe(ObjectNode figures) {
    long tasks = 0; // those without rows are tasks, too: how many keys each samples depends on it
    long[] cells = {};
    long[] partitions = {};
    Map<Long, long[]> sample = new HashMap<>();
    for (long[] one : reports.most()) {
      tasks = Math.max(tasks, one[0] + 1);
      int behindCells = 5 + (int) one[3];
      int behind = behindCells + (int) one[4];
      figures.put("version", (int) one[2]);
      cells = added(cells, one, 5, behindCells);
      partitions = added(partitions, one, behindCells, behind);
      for (int i = behind; i < one.length; i += 3) {
        sample.merge(one[i], new long[] {one[i + 1], one[i + 2]}, (a, b) -> added(a, b, 0, 2));
      }
    }
    StringJoiner drawn = new StringJoiner(",", "[", "]");
    sample.forEach((code, of) -> drawn.add(code + "," + of[0] + "," + of[1]));
    figures.put("tasks", tasks).put("cells", Arrays.toString(cells));
    figures.put("partitions", Arrays.toString(partitions));
    ArrayNode named = figures.put("sample", drawn.toString()).putArray("names");
    names.value().forEach(one -> named.addArray().add((Long) one[0]).add((String) one[1]));
  }

  private static long[] added(long[] sums, long[] some, int from, int to) {
    long[] found = Arrays.copyOf(sums, to - from);
    Arrays.setAll(found, i -> found[i] + some[from + i]);
    return found;
  }

  /** What counts the rows of a partition. */
  Task opened(Router router, int capacity, String label, long seed, int partition) {
    TaskContext task = TaskContext.get();
    long number = task == null ? 0 : task.taskAttemptId();
    Task opened = new Task(router, capacity, BEFORE.getOrDefault(label, 0L), seed + number);
    if (task != null) {
      TaskCompletionListener end =
          ended -> {
            BEFORE.put(label, opened.rows);
            reports.add(partition, opened.report());
            opened.names.forEach((code, key) -> names.add(new Object[] {code, key}));
          };
      task.addTaskCompletionListener(end);
    }
    return opened;
  }

  /**
   * The rows of one partition.
   *
   * <p>Which row is the last one nobody knows before it ends, so there is no reservoir: a row is
   * drawn with a chance of 1 to a power of 2, whose exponent grows with the rows; those drawn before
   * then stay with a chance of a half, as if all were drawn with the last one. It begins with
   * that of the task before in this process: the micro-batches of a stream are alike. The sample has
   * 3/4 to 3/2 of the capacity.
   */
  static final class Task {
    private static final int OFTEN = 3;
    private static final int NAMED = 100;

    private final Router router;
    private final long[] cells;
    private final long[] partitions;
    private final SplittableRandom random;
    private final Map<Long, long[]> sample = new HashMap<>(); // how often drawn, for how many rows
    private final Map<Long, String> names = new HashMap<>();
    private long rows;
    private int exponent;
    private long next; // the row from which on the exponent is larger

    private Task(Router router, int capacity, long before, long seed) {
      this.router = router;
      cells = new long[router.cells()];
      partitions = new long[router.partitions()];
      random = new SplittableRandom(seed);
      next = Math.max(1, 3L * capacity / 4) << 1;
      while (next <= before) {
        next <<= 1;
        exponent++;
      }
    }

    /** Count a row; whether its key is drawn often, for the first time: it is worth a name. */
    boolean add(int cell, int partition, long code) {
      cells[cell]++;
      partitions[partition]++;
      if (++rows >= next) {
        next <<= 1;
        exponent++;
        sample.values().removeIf(this::isThinnedOut);
      }
      if (exponent > 0 && random.nextLong() >>> Long.SIZE - exponent != 0) {
        return false;
      }
      long[] drawn = sample.computeIfAbsent(code, any -> new long[2]);
      drawn[1] += 1L << exponent;
      return ++drawn[0] == OFTEN && names.size() < NAMED;
    }

    /** Leave each draw of a key with a chance of a half; whether none is left. */
    private boolean isThinnedOut(long[] drawn) {
      long kept = 0;
      for (long left = drawn[0]; left > 0; left -= Long.SIZE) {
        kept += Long.bitCount(random.nextLong() >>> Math.max(0, Long.SIZE - left));
      }
      drawn[0] = kept;
      drawn[1] = kept << exponent;
      return kept == 0;
    }

    void name(long code, String key) {
      names.put(code, key);
    }

    private long[] report() {
      LongStream head = LongStream.of(rows, router.version(), cells.length, partitions.length);
      LongStream counts = LongStream.concat(LongStream.of(cells), LongStream.of(partitions));
      LongStream drawn =
          sample.entrySet().stream()
              .flatMapToLong(
                  one -> LongStream.of(one.getKey(), one.getValue()[0], one.getValue()[1]));
      return LongStream.concat(LongStream.concat(head, counts), drawn).toArray();
    }
  }
}
