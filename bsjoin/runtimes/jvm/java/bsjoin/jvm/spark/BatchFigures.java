package bsjoin.jvm.spark;

import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;
import java.util.function.Consumer;
import java.util.function.Supplier;
import java.util.regex.Matcher;
import java.util.regex.Pattern;
import org.apache.spark.SparkContext;
import org.apache.spark.sql.execution.SQLExecution;
import org.apache.spark.sql.internal.SQLConf;

/**
 * The figures of the last micro-batches, kept in the driver: what was counted is read when it is
 * asked for.
 *
 * <p>They are kept for all sessions of this JVM, in classes of the JDK: under Spark Connect each
 * session loads its own copy of this class, and one more when it gets another jar.
 */
public final class BatchFigures {
  private static final int VERSION = 1; // of the form in which metrics travel
  private static final ObjectMapper JSON = new ObjectMapper();
  private static final String PLACE = "bsjoin.batches."; // among the properties of the JVM
  private static final int RUNS = 64; // those that counted something last
  private static final int SAMPLED = 16; // those with a sample of keys in each micro-batch
  private static final int FIGURES = 1000; // of a micro-batch

  private static final String QUERY_ID = "sql.streaming.queryId"; // local properties of a thread
  private static final String BATCH_ID = "streaming.sql.batchId";
  private static final String TAGS = "spark.job.tags";
  private static final String RETAINED = "spark.sql.streaming.numRecentProgressUpdates";

  /** A tag that says which micro-batch a thread runs, where Spark does not. */
  private static final Pattern TAG = Pattern.compile("bsjoin-batch-([0-9a-f-]+)_([0-9]+)");

  /**
   * A micro-batch.
   *
   * @param run Spark's id of the run of a query, or what stands for it
   * @param number of the micro-batch
   * @param execution Spark's id of the action; null for none
   */
  public record Batch(String run, long number, String execution) {}

  private BatchFigures() {}

  /** The figures of some micro-batches of a run: a line of {@code bsjoin/metrics/lines.py}. */
  public static String read(String kind, String run, long first, long last) {
    List<Supplier<String>> found = new ArrayList<>();
    Map<String, TreeMap<Long, List<Supplier<String>>>> runs = runs(kind);
    synchronized (runs) {
      if (first <= last && runs.containsKey(run)) {
        runs.get(run).subMap(first, true, last, true).values().forEach(found::addAll);
      }
    }
    List<String> records = found.stream().map(Supplier::get).toList();
    return "{\"v\":" + VERSION + ",\"records\":" + records + "}";
  }

  @SuppressWarnings("unchecked")
  private static Map<String, TreeMap<Long, List<Supplier<String>>>> runs(String kind) {
    return (Map<String, TreeMap<Long, List<Supplier<String>>>>)
        System.getProperties().computeIfAbsent(PLACE + kind, place -> new LinkedHashMap<>());
  }

  /**
   * Keep what puts the figures into a record as they are when it is asked for.
   *
   * @param kind of what counts
   * @param batch which has the figures; null for none: nothing is kept
   * @param describe puts what they are of into the record, at once
   * @param count puts the figures into it, each time; it is kept with all that it holds
   */
  public static void add(
      String kind, Batch batch, Consumer<ObjectNode> describe, Consumer<ObjectNode> count) {
    if (batch == null) {
      return;
    }
    ObjectNode record =
        JSON.createObjectNode().put("batch", batch.number).put("execution", batch.execution);
    describe.accept(record);
    Supplier<String> figures =
        () -> {
          synchronized (record) {
            count.accept(record);
            return record.toString();
          }
        };
    int kept = Integer.parseInt(SQLConf.get().getConfString(RETAINED, "100").strip());
    Map<String, TreeMap<Long, List<Supplier<String>>>> runs = runs(kind);
    synchronized (runs) {
      TreeMap<Long, List<Supplier<String>>> batches = runs.remove(batch.run);
      batches = batches == null ? new TreeMap<>() : batches;
      runs.put(batch.run, batches); // the last one
      shorten(runs, kind.equals("partitions") ? SAMPLED : RUNS);
      if (!batches.containsKey(batch.number) && !batches.isEmpty()) {
        settle(batches.lastEntry().getValue());
      }
      List<Supplier<String>> some =
          batches.computeIfAbsent(batch.number, any -> new ArrayList<>());
      shorten(batches, kept + 1); // the one that runs has no progress yet
      if (some.size() < FIGURES) {
        some.add(figures);
      }
    }
  }

  /** Keep the texts of a micro-batch that has ended, and no metrics: those have each partition's. */
  private static void settle(List<Supplier<String>> figures) {
    figures.replaceAll(
        one -> {
          String text = one.get();
          return () -> text;
        });
  }

  private static void shorten(Map<?, ?> map, int most) {
    while (map.size() > most) {
      map.remove(map.keySet().iterator().next());
    }
  }

  /** The micro-batch that a tag of this thread names, or whose thread this is; null for none. */
  public static Batch current(SparkContext context) {
    String tags = context.getLocalProperty(TAGS);
    Matcher tag = TAG.matcher(tags == null ? "" : tags);
    if (tag.find()) {
      return batch(context, tag.group(1), tag.group(2));
    }
    String query = context.getLocalProperty(QUERY_ID);
    String number = context.getLocalProperty(BATCH_ID);
    return query == null || number == null ? null : batch(context, query, number);
  }

  /** A micro-batch of a query that is active, by its id, or of what stands for a run. */
  public static Batch batch(SparkContext context, String query, String number) {
    String run = BatchTime.run(query);
    String execution = context.getLocalProperty(SQLExecution.EXECUTION_ID_KEY());
    return new Batch(run == null ? query : run, Long.parseLong(number), execution);
  }
}
