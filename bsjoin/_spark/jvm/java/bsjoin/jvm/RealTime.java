package bsjoin.jvm;

import com.fasterxml.jackson.databind.JsonNode;
import java.lang.reflect.Method;
import java.util.Map;
import java.util.UUID;
import org.apache.spark.SparkContext;
import org.apache.spark.sql.types.DataTypes;

/**
 * Whether the streaming query that is being planned runs under the real-time trigger.
 *
 * <p>It has no arguments and is deterministic, so the optimizer evaluates it, in the driver, in the
 * thread of the query, and only its result reaches the tasks. The trigger is not part of Spark's
 * public API: where it cannot be read, the query is one of micro-batches.
 */
public final class RealTime extends Function<Boolean> {
  private static final String QUERY_ID = "sql.streaming.queryId"; // a local property of the thread

  RealTime(String spec, JsonNode node) {
    super(spec, node, DataTypes.BooleanType);
  }

  @Override
  public String name() {
    return "bsjoin_real_time";
  }

  public boolean invoke() {
    try {
      SparkContext context = SparkContext.getOrCreate(); // the one that plans
      String id = context.getLocalProperty(QUERY_ID);
      if (id == null) {
        return false;
      }
      Object session = Class.forName("org.apache.spark.sql.SparkSession", true, loader())
          .getMethod("active")
          .invoke(null);
      Map<?, ?> queries = (Map<?, ?>) get(get(session, "sharedState"), "activeStreamingQueries");
      Object query = queries.get(UUID.fromString(id));
      return query != null
          && get(query, "trigger").getClass().getSimpleName().equals("RealTimeTrigger");
    } catch (ReflectiveOperationException | RuntimeException e) {
      return false;
    }
  }

  private static ClassLoader loader() {
    return Thread.currentThread().getContextClassLoader();
  }

  private static Object get(Object object, String name) throws ReflectiveOperationException {
    Method method = object.getClass().getMethod(name);
    method.setAccessible(true);
    return method.invoke(object);
  }
}
