package bsjoin.jvm.spark;

import com.fasterxml.jackson.databind.JsonNode;
import java.lang.reflect.Method;
import java.util.Map;
import java.util.UUID;
import java.util.concurrent.ConcurrentHashMap;
import org.apache.spark.SparkContext;
import org.apache.spark.SparkEnv;
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;
import org.apache.spark.sql.execution.QueryExecution;
import org.apache.spark.sql.types.DataTypes;
import org.apache.spark.unsafe.types.UTF8String;

/**
 * The timestamp of the micro-batch that is being planned: microseconds since the epoch, as a text.
 *
 * <p>It has no arguments and is deterministic, so the optimizer evaluates it, in the driver, in the
 * thread of the query, and only its result reaches the tasks. It is the timestamp of Spark's offset
 * log, like {@code current_timestamp()}, but a text: generated code refers to a text and contains a
 * number, so that with a number every micro-batch would be compiled anew.
 *
 * <p>{@link #NOW}: the query runs under the real-time trigger. {@link #UNKNOWN}: nothing of this can
 * be read, for it is not part of Spark's public API, or no streaming query is being planned.
 */
public final class BatchTime extends Function<UTF8String> {
  static final UTF8String NOW = UTF8String.fromString("now");
  static final UTF8String UNKNOWN = UTF8String.fromString("unknown");

  /** Those that were called, by their names: each micro-batch calls them some times. */
  private static final ClassValue<Map<String, Method>> METHODS =
      new ClassValue<>() {
        @Override
        protected Map<String, Method> computeValue(Class<?> type) {
          return new ConcurrentHashMap<>();
        }
      };

  private static final String QUERY_ID = "sql.streaming.queryId"; // a local property of the thread

  public BatchTime(String spec, JsonNode node) {
    super(spec, node, DataTypes.StringType);
  }

  @Override
  public String name() {
    return "bsjoin_batch_time";
  }

  public UTF8String invoke() {
    return current();
  }

  /** The same, for what is planned in Java. */
  static UTF8String current() {
    try {
      if (!SparkEnv.get().executorId().equals("driver")) {
        return UNKNOWN;
      }
      String id = SparkContext.getOrCreate().getLocalProperty(QUERY_ID);
      return id == null ? UNKNOWN : of(query(UUID.fromString(id)));
    } catch (ReflectiveOperationException | RuntimeException e) {
      return UNKNOWN;
    }
  }

  /** Spark's id of the run of a query that is active; null for another one. */
  public static String run(String query) {
    try {
      return String.valueOf(get(query(UUID.fromString(query)), "runId"));
    } catch (ReflectiveOperationException | RuntimeException e) {
      return null;
    }
  }

  /**
   * The plan of the micro-batch that is being planned, with all of its sources; null if it cannot be
   * read.
   */
  public static LogicalPlan plan() {
    try {
      String id = SparkContext.getOrCreate().getLocalProperty(QUERY_ID);
      Object batch = get(query(UUID.fromString(id)), "getLatestExecutionContext");
      return ((QueryExecution) get(batch, "executionPlan")).logical();
    } catch (ReflectiveOperationException | RuntimeException e) {
      return null;
    }
  }

  private static Object query(UUID id) throws ReflectiveOperationException {
    ClassLoader loader = Thread.currentThread().getContextClassLoader();
    Object session =
        Class.forName("org.apache.spark.sql.SparkSession", true, loader)
            .getMethod("active")
            .invoke(null);
    return ((Map<?, ?>) get(get(session, "sharedState"), "activeStreamingQueries")).get(id);
  }

  private static UTF8String of(Object query) throws ReflectiveOperationException {
    if (get(query, "trigger").getClass().getSimpleName().equals("RealTimeTrigger")) {
      return NOW;
    }
    Object batch = get(get(query, "getLatestExecutionContext"), "offsetSeqMetadata");
    long ms = (Long) get(batch, "batchTimestampMs");
    return ms > 0 ? UTF8String.fromString(ms + "000") : UNKNOWN;
  }

  /** What a method without arguments returns. */
  public static Object get(Object object, String name) throws ReflectiveOperationException {
    Map<String, Method> known = METHODS.get(object.getClass());
    Method method = known.get(name);
    if (method == null) {
      method = object.getClass().getMethod(name);
      method.setAccessible(true);
      known.put(name, method);
    }
    return method.invoke(object);
  }
}
