package bsjoin.jvm.lookup;

import java.lang.reflect.Method;
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
final class LastAttempts {
  private static final Methods METHODS = methods(); // since Spark 4.2; null before

  /** What makes such a metric, the last RDD that it has counted rows of, and its value there. */
  private record Methods(Object maker, Method make, Method rdd, Method value) {}

  private LastAttempts() {}

  private static Methods methods() {
    try {
      String name = "org.apache.spark.sql.execution.metric.SQLLastAttemptMetric";
      Object maker = Class.forName(name + "s$").getField("MODULE$").get(null);
      Class<?> metric = Class.forName(name);
      return new Methods(
          maker,
          maker.getClass().getMethod("createMetric", SparkContext.class, String.class),
          metric.getMethod("getHighestRDDId"),
          metric.getMethod("lastAttemptValueForRDDId", int.class));
    } catch (ReflectiveOperationException | LinkageError e) {
      return null;
    }
  }

  static SQLMetric metric(SparkContext context, String name) {
    Object made = METHODS == null ? null : called(METHODS.make, METHODS.maker, context, name);
    return made instanceof SQLMetric found ? found : SQLMetrics.createMetric(context, name);
  }

  /** What some metrics of the same rows have counted: all of one RDD. */
  static long[] values(SQLMetric... counted) {
    Integer last = null; // a metric that no task has added to has none
    for (SQLMetric one : counted) {
      Object rdd = METHODS == null ? null : called(METHODS.rdd, one);
      last = rdd instanceof Integer id && (last == null || id > last) ? id : last;
    }
    Integer rdd = last;
    return Arrays.stream(counted).mapToLong(one -> value(one, rdd)).toArray();
  }

  private static long value(SQLMetric counted, Integer rdd) {
    if (rdd == null) {
      return counted.value();
    }
    Object last = called(METHODS.value, counted, rdd);
    return last == null ? 0 : (Long) last;
  }

  /** What a method gives, or what its option has; null for none. */
  private static Object called(Method method, Object object, Object... arguments) {
    try {
      Object found = method.invoke(object, arguments);
      return found instanceof Option<?> option ? option.getOrElse(() -> null) : found;
    } catch (ReflectiveOperationException | RuntimeException | LinkageError e) {
      return null;
    }
  }
}
