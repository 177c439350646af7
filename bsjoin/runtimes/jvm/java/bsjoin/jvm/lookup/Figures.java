package bsjoin.jvm.lookup;

import bsjoin.jvm.spark.BatchFigures;
import bsjoin.jvm.spark.Function;
import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.io.IOException;
import org.apache.spark.SparkContext;
import org.apache.spark.sql.execution.SQLExecution;
import org.apache.spark.sql.types.DataTypes;
import org.apache.spark.unsafe.types.UTF8String;

/**
 * The figures of the joins of the last micro-batches; a function that reads those of any kind.
 *
 * <p>A {@link LookupExec} is registered when its execution begins. One that is planned and not
 * executed is not registered.
 */
public final class Figures extends Function<UTF8String> {
  public static final String NAME = "figures";

  private static final String JOINS = "joins";
  private static final ObjectMapper JSON = new ObjectMapper();

  public Figures() {
    super(
        NAME, JSON.createObjectNode(), DataTypes.StringType, DataTypes.StringType,
        DataTypes.StringType, DataTypes.LongType, DataTypes.LongType);
  }

  @Override
  public String name() {
    return "bsjoin_figures";
  }

  public UTF8String invoke(UTF8String kind, UTF8String run, long first, long last) {
    return UTF8String.fromString(BatchFigures.read(kind.toString(), run.toString(), first, last));
  }

  /** Keep what reads the figures of a join whose execution begins in this thread. */
  static void add(SparkContext context, Lookup lookup, Counts counts) {
    boolean isUnread = lookup.label() != null && lookup.label().isEmpty();
    JsonNode label = isUnread || lookup.label() == null ? null : label(lookup.label());
    BatchFigures.Batch batch = isUnread ? null : batch(context, label);
    String root = context.getLocalProperty(SQLExecution.EXECUTION_ROOT_ID_KEY());
    JoinKind kind = lookup.kind();
    int version = lookup.version();
    BatchFigures.add(
        JOINS,
        batch,
        record -> {
          // Whether it is of a function for foreachBatch.
          record.put("inner", root != null && !root.equals(batch.execution()));
          record.set("label", label);
          record.put("kind", kind.name()).put("table", lookup.table()).put("path", lookup.path());
          lookup.on().forEach(record.putArray("on")::add);
        },
        record -> { // with names and numbers only: the plan holds the table's files
          ObjectNode metrics = metrics(counts.sums(), kind);
          record.set("metrics", metrics.put("version", counts.newest(version)));
        });
  }

  private static ObjectNode metrics(long[] counted, JoinKind kind) {
    long rows = counted[0];
    long hits = counted[1];
    long results = counted[2];
    long matches =
        switch (kind) {
          case INNER -> results;
          case OUTER -> results - (rows - hits);
          default -> hits;
        };
    return JSON.createObjectNode()
        .put("rows_in", rows).put("hits", hits).put("matches", matches).put("rows_out", results)
        .put("open_ns", counted[3]);
  }

  /** The micro-batch that its label says, which was planned for one; or the one of this thread. */
  private static BatchFigures.Batch batch(SparkContext context, JsonNode label) {
    JsonNode planned = label == null ? null : label.get("batch");
    return planned != null && planned.isArray()
        ? BatchFigures.batch(context, planned.path(0).asText(), planned.path(1).asText())
        : BatchFigures.current(context);
  }

  private static JsonNode label(String label) {
    try {
      return JSON.readTree(label);
    } catch (IOException e) {
      throw new IllegalArgumentException("the label of a join is no JSON: " + label, e);
    }
  }
}
