package bsjoin.jvm;

import java.util.ArrayList;
import java.util.LinkedHashSet;
import java.util.List;
import java.util.Map;
import java.util.Set;
import org.apache.spark.sql.SparkSession;
import scala.jdk.javaapi.CollectionConverters;

/**
 * The settings of the session whose query is planned. Those of {@code SQLConf.get()} are a view's
 * while the view is resolved.
 */
final class SessionSettings {
  private SessionSettings() {}

  /** All settings, those of the application included. */
  static Map<String, String> all() {
    return CollectionConverters.asJava(SparkSession.active().conf().getAll());
  }

  /** The commands of Python to try, for a table behind a URL: those of the workers first. */
  static List<String> python() {
    Map<String, String> settings = all();
    Set<String> found = new LinkedHashSet<>();
    found.add(settings.get("spark.sql.execution.pyspark.python"));
    found.add(settings.get("spark.pyspark.python"));
    found.add(System.getenv("PYSPARK_PYTHON"));
    found.add(settings.get("spark.pyspark.driver.python"));
    found.add(System.getenv("PYSPARK_DRIVER_PYTHON"));
    found.add("python3");
    found.remove(null);
    return new ArrayList<>(found);
  }
}
