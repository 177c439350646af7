package bsjoin.jvm.planner;

import bsjoin.jvm.spark.Scala;
import bsjoin.jvm.storage.TableError;
import com.fasterxml.jackson.core.JsonProcessingException;
import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import java.util.Map;
import java.util.TreeMap;
import org.apache.spark.SparkContext;
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;
import org.apache.spark.sql.connector.read.streaming.Offset;
import org.apache.spark.sql.execution.datasources.v2.StreamingDataSourceV2ScanRelation;
import org.slf4j.LoggerFactory;
import scala.Option;

/**
 * The slots that a batch of real-time mode needs: one for each partition of its source, all the
 * while. Spark starts it with fewer, too, and then never reads the partitions that got none.
 */
final class Slots {
  private static final ObjectMapper JSON = new ObjectMapper();
  private static String said; // the last warning

  private Slots() {}

  /**
   * Look whether the source of a stream has more partitions than there are slots.
   *
   * @throws IllegalStateException it has, and no more slots can come; where executors may come, the
   *     log gets a warning
   */
  static void check(LogicalPlan stream) {
    Map<String, Integer> partitions = new TreeMap<>();
    for (LogicalPlan leaf : Scala.list(stream.collectLeaves())) {
      if (leaf instanceof StreamingDataSourceV2ScanRelation source) {
        Option<Offset> start = source.startOffset();
        if (start.isDefined()) {
          partitions.putAll(partitions(start.get().json()));
        }
      }
    }
    int wanted = partitions.values().stream().mapToInt(Integer::intValue).sum();
    SparkContext context = SparkContext.getOrCreate();
    boolean mayGrow = context.getConf().getBoolean("spark.dynamicAllocation.enabled", false);
    int slots =
        context.maxNumConcurrentTasks(context.resourceProfileManager().defaultResourceProfile());
    if (wanted <= slots || mayGrow && !context.isLocal()) {
      return;
    }
    String found =
        "real-time mode holds a slot for each partition of its source, " + wanted + " here ("
            + String.join(", ", partitions.keySet()) + "), and there are " + slots
            + ": the other partitions are not read. ";
    if (context.isLocal()) {
      throw TableError.of(
          "WorkerEnvironmentError",
          found + "Start Spark with master local[" + (wanted + 1)
              + "], one more for a refresh, or use another trigger");
    }
    warn("bsjoin: " + found + "Give the executors " + (wanted + 1) + " cores in all");
  }

  private static synchronized void warn(String message) {
    if (!message.equals(said)) {
      said = message;
      LoggerFactory.getLogger("bsjoin").warn(message);
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
