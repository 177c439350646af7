package bsjoin.jvm.lookup;

import bsjoin.jvm.spark.BatchTime;
import bsjoin.jvm.spark.Function;
import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.io.IOException;
import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.function.Supplier;
import java.util.regex.Matcher;
import java.util.regex.Pattern;
import org.apache.spark.SparkContext;
import org.apache.spark.sql.execution.SQLExecution;
import org.apache.spark.sql.internal.SQLConf;
import org.apache.spark.sql.types.DataTypes;
import org.apache.spark.unsafe.types.UTF8String;

/**
 * The figures of the joins of the last micro-batches, kept in the driver; a function that reads them.
 *
 * <p>A {@link LookupExec} is registered when its execution begins, with the run of the streaming
 * query and the number of the micro-batch. What it has counted is read when it is asked for. One that
 * is planned and not executed is not registered.
 *
 * <p>They are kept for all sessions of this JVM, in classes of the JDK: under Spark Connect each
 * session loads its own copy of this class, and one more when it gets another jar.
 */
public final class Figures extends Function<UTF8String> {
  public static final String NAME = "figures";

  private static final int VERSION = 1; // of the form in which metrics travel
  private static final ObjectMapper JSON = new ObjectMapper();
  private static final String PLACE = "bsjoin.figures"; // among the properties of the JVM
  private static final int RUNS = 64; // those that ran a join last
  private static final int JOINS = 1000; // of a micro-batch

  private static final String QUERY_ID = "sql.streaming.queryId"; // local properties of a thread
  private static final String BATCH_ID = "streaming.sql.batchId";
  private static final String TAGS = "spark.job.tags";
  private static final String RETAINED = "spark.sql.streaming.numRecentProgressUpdates";

  /** A tag that says which micro-batch a thread runs, where Spark does not. */
  private static final Pattern TAG = Pattern.compile("bsjoin-batch-([0-9a-f-]+)_([0-9]+)");

  public Figures() {
    super(
        NAME, JSON.createObjectNode(), DataTypes.StringType, DataTypes.StringType,
        DataTypes.LongType, DataTypes.LongType);
  }

  @Override
  public String name() {
    return "bsjoin_figures";
  }

  public UTF8String invoke(UTF8String run, long first, long last) {
    return UTF8String.fromString(read(run.toString(), first, last));
  }

  /**
   * The figures of a run: a line of {@code bsjoin/metrics/lines.py}, with the {@code
   * OperatorMetrics} of each join that was executed.
   *
   * @param run Spark's id of the run of a query, or what stands for it
   * @param first the number of the first micro-batch to read
   * @param last and of the last one
   */
  public static String read(String run, long first, long last) {
    List<Supplier<String>> found = new ArrayList<>();
    Map<String, Map<Long, List<Supplier<String>>>> runs = runs();
    synchronized (runs) {
      runs.getOrDefault(run, Map.of())
          .forEach(
              (batch, joins) -> found.addAll(first <= batch && batch <= last ? joins : List.of()));
    }
    List<String> records = found.stream().map(Supplier::get).toList();
    return "{\"v\":" + VERSION + ",\"records\":" + records + "}";
  }

  @SuppressWarnings("unchecked")
  private static Map<String, Map<Long, List<Supplier<String>>>> runs() {
    return (Map<String, Map<Long, List<Supplier<String>>>>)
        System.getProperties().computeIfAbsent(PLACE, place -> new LinkedHashMap<>());
  }

  /** Keep what reads the figures of a join whose execution begins in this thread. */
  static void add(SparkContext context, Lookup lookup, Counts counts) {
    boolean isUnread = lookup.label() != null && lookup.label().isEmpty();
    String[] batch = isUnread ? null : batch(context, lookup.label());
    if (batch == null) {
      return;
    }
    String execution = context.getLocalProperty(SQLExecution.EXECUTION_ID_KEY());
    String root = context.getLocalProperty(SQLExecution.EXECUTION_ROOT_ID_KEY());
    boolean isInner = root != null && !root.equals(execution); // of a function for foreachBatch
    long number = Long.parseLong(batch[1]);
    JoinKind kind = lookup.kind();
    ObjectNode described = JSON.createObjectNode();
    described.put("batch", number).put("execution", execution).put("inner", isInner);
    described.set("label", lookup.label() == null ? null : label(lookup.label()));
    described.put("kind", kind.name()).put("table", lookup.table()).put("path", lookup.path());
    lookup.on().forEach(described.putArray("on")::add);
    int version = lookup.version();
    Supplier<String> figures = // of names and numbers only: the plan holds the table's files
        () -> {
          synchronized (described) {
            ObjectNode metrics = metrics(counts.values(), kind);
            described.set("metrics", metrics.put("version", counts.newest(version)));
            return described.toString();
          }
        };
    int kept = Integer.parseInt(SQLConf.get().getConfString(RETAINED, "100"));
    Map<String, Map<Long, List<Supplier<String>>>> runs = runs();
    synchronized (runs) {
      Map<Long, List<Supplier<String>>> batches = runs.remove(batch[0]);
      batches = batches == null ? new LinkedHashMap<>() : batches;
      runs.put(batch[0], batches); // the last one
      shorten(runs, RUNS);
      if (!batches.containsKey(number) && !batches.isEmpty()) {
        settle(new ArrayList<>(batches.values()).get(batches.size() - 1));
      }
      List<Supplier<String>> joins = batches.computeIfAbsent(number, any -> new ArrayList<>());
      shorten(batches, kept + 1); // the one that runs has no progress yet
      if (joins.size() < JOINS) {
        joins.add(figures);
      }
    }
  }

  private static ObjectNode metrics(Map<String, Long> counted, JoinKind kind) {
    long rows = counted.get("rowsIn");
    long hits = counted.get("matchedRows");
    long results = counted.get("rowsOut");
    long matches =
        switch (kind) {
          case INNER -> results;
          case OUTER -> results - (rows - hits);
          default -> hits;
        };
    return JSON.createObjectNode()
        .put("rows_in", rows).put("hits", hits).put("matches", matches).put("rows_out", results)
        .put("open_ns", counted.get("openTime"));
  }

  /** Keep the texts of a micro-batch that has ended, and no metrics: those have each partition's. */
  private static void settle(List<Supplier<String>> joins) {
    joins.replaceAll(
        join -> {
          String text = join.get();
          return () -> text;
        });
  }

  private static void shorten(Map<?, ?> map, int most) {
    while (map.size() > most) {
      map.remove(map.keySet().iterator().next());
    }
  }

  /**
   * The run and the number of the micro-batch that a join is part of; null for none: what its label
   * says, which was planned for one; what a tag of this thread says; or whose thread this is.
   */
  private static String[] batch(SparkContext context, String label) {
    JsonNode planned = label == null ? null : label(label).get("batch");
    if (planned != null && planned.isArray()) {
      return new String[] {run(planned.path(0).asText()), planned.path(1).asText()};
    }
    String tags = context.getLocalProperty(TAGS);
    Matcher tag = TAG.matcher(tags == null ? "" : tags);
    if (tag.find()) {
      return new String[] {tag.group(1), tag.group(2)};
    }
    String query = context.getLocalProperty(QUERY_ID);
    String number = context.getLocalProperty(BATCH_ID);
    return query == null || number == null ? null : new String[] {run(query), number};
  }

  /** The run of a query; of what else stands for one, the same. */
  private static String run(String query) {
    String run = BatchTime.run(query);
    return run == null ? query : run;
  }

  private static JsonNode label(String label) {
    try {
      return JSON.readTree(label);
    } catch (IOException e) {
      throw new IllegalArgumentException("the label of a join is no JSON: " + label, e);
    }
  }
}
