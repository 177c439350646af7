package bsjoin.jvm.partitioning;

import bsjoin.jvm.spark.Function;
import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import java.io.IOException;
import org.apache.spark.sql.types.DataType;
import org.apache.spark.sql.types.DataTypes;
import org.apache.spark.unsafe.types.UTF8String;

/** A function whose first argument is a published rule, see {@link PublishedRules}. */
public abstract class Route<R> extends Function<R> {
  private transient Opened opened;

  /** A rule; {@code given} is the object that is the same for all rows, as it is a constant. */
  private record Opened(UTF8String given, UTF8String text, int capacity, Router router) {}

  Route(String spec, JsonNode node, DataType result, DataType... inputs) {
    super(spec, node, result, inputs);
  }

  private Opened opened(UTF8String rule) {
    Opened last = opened;
    if (last != null && (last.given == rule || last.text.equals(rule))) {
      return last;
    }
    try {
      JsonNode read = new ObjectMapper().readTree(rule.toString());
      Router router = Router.of(read.path("rule").asText());
      return opened = new Opened(rule, rule.clone(), read.path("capacity").asInt(1), router);
    } catch (IOException e) {
      throw new IllegalArgumentException(e);
    }
  }

  final Router router(UTF8String rule) {
    return opened(rule).router;
  }

  /** How many keys a task is to sample. */
  final int capacity(UTF8String rule) {
    return opened(rule).capacity;
  }

  public static final class Cells extends Route<Integer> {
    public Cells(String spec, JsonNode node) {
      super(spec, node, DataTypes.IntegerType, DataTypes.StringType);
    }

    @Override
    public String name() {
      return "bsjoin_rule_cells";
    }

    public int invoke(UTF8String rule) {
      return router(rule).cells();
    }
  }

  /**
   * Where a row with the code of a key, and a hash of all its columns, is counted and goes: {@link
   * Router#place}.
   */
  public static final class Place extends Route<Long> {
    public Place(String spec, JsonNode node) {
      super(
          spec, node, DataTypes.LongType, DataTypes.StringType, DataTypes.LongType,
          DataTypes.LongType);
    }

    @Override
    public String name() {
      return "bsjoin_place";
    }

    public long invoke(UTF8String rule, long code, long content) {
      return router(rule).place(code, content);
    }
  }
}
