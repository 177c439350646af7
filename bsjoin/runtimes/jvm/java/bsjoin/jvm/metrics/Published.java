package bsjoin.jvm.metrics;

import com.codahale.metrics.Gauge;
import com.codahale.metrics.MetricRegistry;
import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import java.io.IOException;
import java.util.Map;
import java.util.Set;
import java.util.concurrent.ConcurrentHashMap;
import java.util.stream.Collectors;
import org.apache.spark.SparkEnv;
import org.apache.spark.metrics.MetricsSystem;
import org.apache.spark.metrics.source.Source;

/**
 * Gauges in the metrics system of the driver, and so in all its sinks: the servlets of the UI, JMX
 * and others. Their values are the last ones that were set.
 */
public final class Published implements Source {
  private static final ObjectMapper JSON = new ObjectMapper();

  private final Map<String, Double> values = new ConcurrentHashMap<>();
  private final MetricRegistry registry = new MetricRegistry();
  private final MetricsSystem system = SparkEnv.get().metricsSystem();

  /** Begin to show values under a name; {@link #close} ends it. */
  public Published() {
    system.registerSource(this);
  }

  @Override
  public String sourceName() {
    return "bsjoin";
  }

  @Override
  public MetricRegistry metricRegistry() {
    return registry;
  }

  /** Show these values, and no others: a JSON object of numbers by the names of gauges. */
  public synchronized void set(String json) throws IOException {
    JsonNode given = JSON.readTree(json);
    Set<String> names =
        given.properties().stream().map(Map.Entry::getKey).collect(Collectors.toSet());
    given.properties().forEach(entry -> values.put(entry.getKey(), entry.getValue().asDouble()));
    for (String name : names) {
      if (!registry.getNames().contains(name)) {
        // One that is removed while a sink reads it is no number.
        registry.register(name, (Gauge<Double>) () -> values.getOrDefault(name, Double.NaN));
      }
    }
    registry.removeMatching((name, metric) -> !names.contains(name));
    values.keySet().retainAll(names);
  }

  /** Show nothing more. */
  public synchronized void close() {
    registry.removeMatching((name, metric) -> true);
    system.removeSource(this);
  }
}
