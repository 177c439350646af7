package bsjoin.jvm;

import com.fasterxml.jackson.databind.JsonNode;
import java.util.Arrays;
import java.util.LinkedHashMap;
import java.util.Map;
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
      new LinkedHashMap<String, Long>(16, 0.75f, true) {
        @Override
        protected boolean removeEldestEntry(Map.Entry<String, Long> eldest) {
          return size() > KEPT;
        }
      };

  private final String label;
  private final long seed;
  private transient Draws draws;

  Sampled(String spec, JsonNode node) {
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
    long before;
    synchronized (BEFORE) {
      before = BEFORE.getOrDefault(label, 0L);
    }
    long number = task == null ? 0 : task.taskAttemptId();
    Draws begun = new Draws(capacity(rule), before, seed + number);
    if (task != null) {
      task.addTaskCompletionListener(
          (TaskCompletionListener)
              ended -> {
                synchronized (BEFORE) {
                  BEFORE.put(label, begun.rows);
                }
              });
    }
    return begun;
  }

  /** What a task draws. */
  private static final class Draws {
    private final long kept;
    private long random;
    private long rows;
    private int exponent;
    private long next; // the row from which on the exponent is larger
    private long[] codes = new long[64]; // a hash table of those that were drawn
    private byte[] counts = new byte[64];
    private int used;

    Draws(int capacity, long before, long seed) {
      kept = Math.max(1, 3L * capacity / 4);
      random = mixed(seed);
      next = kept << 1;
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
      random += 0x9E3779B97F4A7C15L;
      if (exponent > 0 && mixed(random) >>> Long.SIZE - exponent != 0) {
        return null;
      }
      String drawn = exponent + ":" + Long.toString(code, 36);
      return UTF8String.fromString(isOften(code) ? drawn + "!" : drawn);
    }

    /** Whether a code is drawn for the {@link #OFTEN}th time. */
    private boolean isOften(long code) {
      int at = slot(code);
      if (counts[at] == 0) {
        codes[at] = code;
        used++;
      }
      boolean often = counts[at] < OFTEN && ++counts[at] == OFTEN;
      if (2 * used > codes.length) {
        grow();
      }
      return often;
    }

    private int slot(long code) {
      int at = (int) mixed(code) & codes.length - 1;
      while (counts[at] != 0 && codes[at] != code) {
        at = at + 1 & codes.length - 1;
      }
      return at;
    }

    private void grow() {
      long[] before = codes;
      byte[] counted = counts;
      codes = Arrays.copyOf(codes, 2 * codes.length);
      counts = new byte[codes.length];
      for (int i = 0; i < before.length; i++) {
        if (counted[i] != 0) {
          int at = slot(before[i]);
          codes[at] = before[i];
          counts[at] = counted[i];
        }
      }
    }

    /** The finalizer of SplitMix64. */
    private static long mixed(long number) {
      long mixed = (number ^ number >>> 30) * 0xBF58476D1CE4E5B9L;
      mixed = (mixed ^ mixed >>> 27) * 0x94D049BB133111EBL;
      return mixed ^ mixed >>> 31;
    }
  }
}
