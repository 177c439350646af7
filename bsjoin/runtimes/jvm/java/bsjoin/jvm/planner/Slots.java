package bsjoin.jvm.planner;

import bsjoin.jvm.spark.BatchTime;
import bsjoin.jvm.spark.Scala;
import bsjoin.jvm.storage.TableError;
import com.fasterxml.jackson.core.JsonProcessingException;
import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import java.util.Map;
import java.util.Set;
import java.util.TreeMap;
import java.util.concurrent.ConcurrentHashMap;
import org.apache.spark.SparkContext;
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;
import org.apache.spark.sql.connector.read.streaming.Offset;
import org.apache.spark.sql.connector.read.streaming.SupportsAdmissionControl;
import org.apache.spark.sql.execution.datasources.v2.StreamingDataSourceV2ScanRelation;
import org.slf4j.LoggerFactory;

/**
 * The slots that a batch of real-time mode needs: one for each partition of its sources, all the
 * while. Spark starts it with fewer, too, and then never reads the partitions that got none. With
 * no more than that, nothing else of the application runs until the batch ends. And a stop repeats
 * that batch, so the log tells what becomes of its rows.
 */
final class Slots {
  private static final ObjectMapper JSON = new ObjectMapper();
  private static final Set<String> SAID = ConcurrentHashMap.newKeySet();

  private Slots() {}

  /**
   * Look whether the sources of a query have as many partitions as there are slots, or more: the log
   * gets a warning, unless executors come by themselves.
   *
   * @param join of the query, whose stream counts where the whole plan is not known
   * @throws IllegalStateException they have more, and no more slots can come
   */
  static void check(IndexJoin join) {
    LogicalPlan whole = BatchTime.plan();
    Map<String, Integer> partitions = new TreeMap<>();
    for (LogicalPlan leaf : Scala.list((whole == null ? join.stream : whole).collectLeaves())) {
      if (leaf instanceof StreamingDataSourceV2ScanRelation source) {
        Offset offset = offset(source);
        partitions(offset == null ? "" : offset.json())
            .forEach((topic, number) -> partitions.merge(topic, number, Integer::sum));
      }
    }
    int wanted = partitions.values().stream().mapToInt(Integer::intValue).sum();
    SparkContext context = SparkContext.getOrCreate();
    String query = context.getLocalProperty("sql.streaming.queryId");
    if (join.follows) {
      warn(
          query,
          "query " + query
              + " repeats the batch that runs when it is stopped, and answers it from the newest "
              + "version of the table: rows that were sent already may come again with other "
              + "content. Shorter batches, trigger(realTime=\"30 seconds\"), repeat less; consumers "
              + "can drop a second row by its offset in the source");
    }
    boolean mayGrow = context.getConf().getBoolean("spark.dynamicAllocation.enabled", false);
    int slots =
        context.maxNumConcurrentTasks(context.resourceProfileManager().defaultResourceProfile());
    if (wanted == 0 || wanted < slots || mayGrow && !context.isLocal()) {
      return;
    }
    String found =
        "real-time mode holds a slot for each partition of its sources, " + wanted + " here ("
            + String.join(", ", partitions.keySet()) + "), and there are " + slots;
    String enough =
        context.isLocal()
            ? "Start Spark with master local[" + (wanted + 1) + "]"
            : "Give the executors " + (wanted + 1) + " cores in all";
    if (wanted == slots) {
      warn(query, found + ": a refresh in this application waits until the batch ends. " + enough
          + ", or refresh from another application");
      return;
    }
    found += ": the other partitions are not read. ";
    if (context.isLocal()) {
      throw TableError.of(
          "WorkerEnvironmentError",
          found + enough + ", one more for a refresh, or use another trigger");
    }
    warn(query, found + enough);
  }

  /** One with all partitions that a batch reads: where it starts, those that are new are missing. */
  private static Offset offset(StreamingDataSourceV2ScanRelation source) {
    Offset latest =
        source.stream() instanceof SupportsAdmissionControl known
            ? known.reportLatestOffset()
            : null;
    return latest == null ? source.startOffset().getOrElse(() -> null) : latest;
  }

  private static void warn(String query, String message) {
    if (SAID.add(BatchTime.run(query) + message)) { // each batch of a run is planned anew
      LoggerFactory.getLogger("bsjoin").warn("bsjoin: " + message);
    }
  }

  /** How many partitions each topic has in an offset of Kafka; none of another source. */
  static Map<String, Integer> partitions(String offset) {
    Map<String, Integer> found = new TreeMap<>();
    JsonNode topics;
    try {
      topics = JSON.readTree(offset);
    } catch (JsonProcessingException e) {
      return found; // a source may write anything
    }
    for (Map.Entry<String, JsonNode> topic : topics.properties()) {
      JsonNode places = topic.getValue();
      boolean isKafka = places.isObject() && !places.isEmpty();
      for (Map.Entry<String, JsonNode> place : places.properties()) {
        isKafka &= place.getKey().matches("\\d+") && place.getValue().isIntegralNumber();
      }
      if (isKafka) {
        found.put(topic.getKey(), places.size());
      }
    }
    return found;
  }
}
