package bsjoin.jvm.partitioning;

import bsjoin.jvm.spark.BatchFigures;
import bsjoin.jvm.spark.Counting;
import bsjoin.jvm.spark.Function;
import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import java.io.IOException;
import org.apache.spark.SparkContext;
import org.apache.spark.sql.types.DataTypes;
import org.apache.spark.unsafe.types.UTF8String;

/**
 * The partition of a row, by a published rule (see {@link PublishedRules}), the code of its key, a
 * hash of all its columns, and the number of the partition that it is in; it may count.
 *
 * <p>A row whose key is worth a name goes to -1 less its partition, for {@link Named}.
 */
public final class Route extends Function<Integer> implements Counting {
  /** What counts the row that this thread has sent to a negative partition. */
  private static final ThreadLocal<RuleCounts.Task> TO_NAME = new ThreadLocal<>();

  private final String label; // null: it does not count, for nobody asks
  private final long seed;
  private final String query; // of a cycle, in whatever thread it is executed; or null
  private final String batch;
  private final RuleCounts counts; // null: of a plan that is not executed
  private transient UTF8String given; // the object that is the same for all rows, as it is a constant
  private transient int capacity;
  private transient Router router;
  private transient RuleCounts.Task task;
  private transient int partition;

  public Route(String name, JsonNode spec) {
    super(
        name, spec, DataTypes.IntegerType, DataTypes.StringType, DataTypes.LongType,
        DataTypes.LongType, DataTypes.IntegerType);
    label = spec.path("label").asText(null);
    seed = spec.path("seed").asLong();
    query = spec.path("query").asText(null);
    batch = spec.path("batch").asText();
    counts = null;
  }

  private Route(Route of, RuleCounts counts) {
    super(of);
    label = of.label;
    seed = of.seed;
    query = of.query;
    batch = of.batch;
    this.counts = counts;
  }

  @Override
  public String name() {
    return "bsjoin_place";
  }

  @Override
  public Route counting() {
    if (counts != null || label == null) {
      return this;
    }
    SparkContext context = SparkContext.getOrCreate();
    RuleCounts counts = new RuleCounts(context);
    BatchFigures.Batch current =
        query == null
            ? BatchFigures.current(context)
            : BatchFigures.batch(context, query, batch);
    BatchFigures.add(
        "partitions", current, figures -> figures.put("label", label), counts::describe);
    return new Route(this, counts);
  }

  public int invoke(UTF8String rule, long code, long content, int from) {
    if (given != rule) {
      open(rule);
    }
    int cell = router.cell(code);
    int to = router.partition(cell, content);
    if (counts == null) {
      return to;
    }
    if (task == null || partition != from) {
      partition = from;
      task = counts.opened(router, capacity, label, seed, from);
    }
    if (!task.add(cell, to, code)) {
      return to;
    }
    TO_NAME.set(task);
    return -1 - to;
  }

  private void open(UTF8String rule) {
    try {
      JsonNode read = new ObjectMapper().readTree(rule.toString());
      router = Router.of(read.path("rule").asText());
      capacity = read.path("capacity").asInt(1);
      given = rule;
    } catch (IOException e) {
      throw new IllegalArgumentException(e);
    }
  }

  /** The partition of a row that a {@link Route} has found worth a name, from what that says. */
  public static final class Named extends Function<Integer> {
    public Named(String name, JsonNode spec) {
      super(
          name, spec, DataTypes.IntegerType, DataTypes.IntegerType, DataTypes.LongType,
          DataTypes.StringType);
    }

    @Override
    public String name() {
      return "bsjoin_named";
    }

    /** Null if the key is null, which has no name. */
    @Override
    public boolean isResultNullable() {
      return true;
    }

    public int invoke(int place, long code, UTF8String key) {
      RuleCounts.Task counting = TO_NAME.get();
      if (counting != null && key != null) {
        counting.name(code, key.toString());
        TO_NAME.remove();
      }
      return -1 - place;
    }
  }
}
