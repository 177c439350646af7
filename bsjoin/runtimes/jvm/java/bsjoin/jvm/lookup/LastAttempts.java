package bsjoin.jvm.lookup;

import java.util.Arrays;
import org.apache.spark.SparkContext;
import org.apache.spark.sql.execution.metric.SQLMetric;
import org.apache.spark.sql.execution.metric.SQLMetrics;
import scala.Option;

/**
 * Metrics of Spark's UI that can tell what was counted last.
 *
 * <p>Of rows that are computed again, for another action or after a failure, the last time counts, as
 * for Spark's {@code observe}. Before Spark 4.2 each time counts.
 */
public final class LastAttempts {
  /** What makes such metrics, since Spark 4.2; null before. */
  private static final Object MADE = made();

  private LastAttempts() {}

  private static Object made() {
    try {
      return Class.forName("org.apache.spark.sql.execution.metric.SQLLastAttemptMetrics$")
          .getField("MODULE$").get(null);
    } catch (ReflectiveOperationException | LinkageError e) {
      return null;
    }
  }

  public static SQLMetric metric(SparkContext context, String name) {
    Class<?>[] types = {SparkContext.class, String.class};
    return called(MADE, "createMetric", types, context, name) instanceof SQLMetric found
        ? found
        : SQLMetrics.createMetric(context, name);
  }

  /** What some metrics of the same rows have counted: all of one RDD. */
  public static long[] values(SQLMetric... counted) {
    Integer last = null; // a metric that no task has added to has none
    for (SQLMetric one : counted) {
      Object rdd = called(one, "getHighestRDDId", new Class<?>[0]);
      last = rdd instanceof Integer id && (last == null || id > last) ? id : last;
    }
    Integer rdd = last;
    return Arrays.stream(counted).mapToLong(one -> value(one, rdd)).toArray();
  }

  private static long value(SQLMetric counted, Object rdd) {
    if (rdd == null) {
      return counted.value();
    }
    Object last = called(counted, "lastAttemptValueForRDDId", new Class<?>[] {int.class}, rdd);
    return last == null ? 0 : (Long) last;
  }

  /** What a method gives that this Spark may not have, or what its option has; null for none. */
  private static Object called(
      Object object, String name, Class<?>[] types, Object... arguments) {
    if (MADE == null) {
      return null;
    }
    try {
      Object found = object.getClass().getMethod(name, types).invoke(object, arguments);
      return found instanceof Option<?> option ? option.getOrElse(() -> null) : found;
    } catch (ReflectiveOperationException | LinkageError e) {
      return null;
    }
  }
}
