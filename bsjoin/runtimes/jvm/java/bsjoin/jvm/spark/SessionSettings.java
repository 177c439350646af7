package bsjoin.jvm.spark;

import java.util.List;
import java.util.Locale;
import java.util.Map;
import java.util.Objects;
import java.util.stream.Stream;
import org.apache.spark.sql.SparkSession;
import org.apache.spark.sql.internal.SQLConf;
import scala.jdk.javaapi.CollectionConverters;

/**
 * The settings of the session whose query is planned. Those of {@code SQLConf.get()} are a view's
 * while the view is resolved.
 */
public final class SessionSettings {
  private SessionSettings() {}

  /** All settings, those of the application included. */
  public static Map<String, String> all() {
    return CollectionConverters.asJava(SparkSession.active().conf().getAll());
  }

  /**
   * Whether a setting is {@code on}, which is the default, and not {@code off}.
   *
   * @throws IllegalArgumentException it is neither
   */
  public static boolean isOn(SQLConf settings, String name) {
    String value = settings.getConfString(name, "on").strip().toLowerCase(Locale.ROOT);
    if (!value.equals("on") && !value.equals("off")) {
      throw new IllegalArgumentException(
          "bsjoin.errors.ArgumentError: " + name + "='" + value + "' is not known: give on or off");
    }
    return value.equals("on");
  }

  /** The commands of Python to try, for a table behind a URL: those of the workers first. */
  public static List<String> python() {
    Map<String, String> settings = all();
    return Stream.of(
            settings.get("spark.sql.execution.pyspark.python"),
            settings.get("spark.pyspark.python"),
            System.getenv("PYSPARK_PYTHON"),
            settings.get("spark.pyspark.driver.python"),
            System.getenv("PYSPARK_DRIVER_PYTHON"),
            "python3")
        .filter(Objects::nonNull)
        .distinct()
        .toList();
  }
}
