package bsjoin.jvm.partitioning;

import bsjoin.jvm.storage.Recent;
import com.fasterxml.jackson.databind.JsonNode;
import java.util.Collections;
import java.util.HashMap;
import java.util.Map;
import java.util.SplittableRandom;
import org.apache.spark.TaskContext;
import org.apache.spark.sql.types.DataTypes;
import org.apache.spark.unsafe.types.UTF8String;
import org.apache.spark.util.TaskCompletionListener;

/**
 * The code of a row's key where the row is drawn for the sample of its task, else null.
 *
 * <p>Which row is the last one of a task nobody knows before it ends, so there is no reservoir: a row
 * is drawn with a chance of 1 to a power of 2, whose exponent grows with the rows of the task and
 * is written before the code. It begins with that of the task before in this process: the
 * micro-batches of a stream are alike. The sample has 3/4 to 3/2 of the capacity.
 *
 * <p>A code that is drawn often is followed by an exclamation mark once: its key is worth a name.
 */
public final class Sampled extends Route<UTF8String> {
  private static final int KEPT = 1 << 8;
  private static final int OFTEN = 3;
  private static final Map<String, Long> BEFORE = // by join: the rows of the last task
      Collections.synchronizedMap(new Recent<>(KEPT));

  private final String label;
  private final long seed;
  private transient Draws draws;

  public Sampled(String spec, JsonNode node) {
    super(spec, node, DataTypes.StringType, DataTypes.StringType, DataTypes.LongType);
    label = node.path("label").asText();
    seed = node.path("seed").asLong();
  }

  @Override
  public String name() {
    return "bsjoin_sampled";
  }

  @Override
  public boolean isDeterministic() {
    return false;
  }

  @Override
  public boolean isResultNullable() {
    return true;
  }

  public UTF8String invoke(UTF8String rule, long code) {
    Draws found = draws;
    if (found == null) {
      draws = found = begun(rule);
    }
    return found.next(code);
  }

  private Draws begun(UTF8String rule) {
    TaskContext task = TaskContext.get();
    long number = task == null ? 0 : task.taskAttemptId();
    Draws begun = new Draws(capacity(rule), BEFORE.getOrDefault(label, 0L), seed + number);
    if (task != null) {
      TaskCompletionListener end = ended -> BEFORE.put(label, begun.rows);
      task.addTaskCompletionListener(end);
    }
    return begun;
  }

  private static final class Draws {
    private final SplittableRandom random;
    private final Map<Long, Integer> counts = new HashMap<>(); // of the codes that were drawn
    private long rows;
    private int exponent;
    private long next; // the row from which on the exponent is larger

    Draws(int capacity, long before, long seed) {
      random = new SplittableRandom(seed);
      next = Math.max(1, 3L * capacity / 4) << 1;
      while (next <= before) {
        next <<= 1;
        exponent++;
      }
    }

    UTF8String next(long code) {
      if (++rows >= next) {
        next <<= 1;
        exponent++;
      }
      if (exponent > 0 && random.nextLong() >>> Long.SIZE - exponent != 0) {
        return null;
      }
      String drawn = exponent + ":" + Long.toString(code, 36);
      boolean isOften = counts.merge(code, 1, Integer::sum) == OFTEN;
      return UTF8String.fromString(isOften ? drawn + "!" : drawn);
    }
  }
}
