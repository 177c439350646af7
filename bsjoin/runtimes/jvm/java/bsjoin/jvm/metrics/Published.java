package bsjoin.jvm.metrics;

import com.codahale.metrics.Gauge;
import com.codahale.metrics.Metric;
import com.codahale.metrics.MetricRegistry;
import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import java.io.IOException;
import java.util.HashMap;
import java.util.Iterator;
import java.util.Map;
import org.apache.spark.SparkEnv;
import org.apache.spark.metrics.MetricsSystem;
import org.apache.spark.metrics.source.Source;

/**
 * Gauges of one listener in the metrics system of the driver, and so in all its sinks: the servlets
 * of the UI, JMX and others. Their values are the last ones that were set.
 *
 * <p>All listeners of an application share one source: Spark removes a source by its name, and so
 * those of the others with it. Where two show a gauge of one name, it is that of the last one.
 */
public final class Published {
  private static final ObjectMapper JSON = new ObjectMapper();

  /** The source of this application, guarded by the class. */
  private static Shared shared;

  private final MetricsSystem system = SparkEnv.get().metricsSystem();
  private final MetricRegistry registry = registryOf(system);

  /** By query its gauges by their names, guarded by the registry. */
  private final Map<String, Map<String, Held>> queries = new HashMap<>();

  private boolean isClosed;

  private static synchronized MetricRegistry registryOf(MetricsSystem system) {
    if (shared == null || shared.system != system) {
      shared = new Shared(system, new MetricRegistry());
      system.registerSource(shared);
    }
    return shared.metricRegistry;
  }

  /** Show these values of a query, and no others: a JSON object of numbers by names of gauges. */
  public void set(String query, String json) throws IOException {
    JsonNode given = JSON.readTree(json);
    synchronized (registry) {
      if (isClosed) { // an event that comes late
        return;
      }
      Map<String, Held> own = queries.computeIfAbsent(query, key -> new HashMap<>());
      Map<String, Metric> shown = registry.getMetrics();
      for (Map.Entry<String, JsonNode> entry : given.properties()) {
        String name = entry.getKey();
        Held held = own.get(name);
        boolean isNew = held == null;
        if (isNew) {
          held = new Held();
          own.put(name, held);
        }
        held.value = entry.getValue().asDouble();
        if (isNew && shown.containsKey(name)) { // another listener's
          registry.remove(name);
        }
        if (!shown.containsKey(name)) {
          registry.register(name, held);
        }
      }
      for (Iterator<Map.Entry<String, Held>> left = own.entrySet().iterator(); left.hasNext(); ) {
        Map.Entry<String, Held> entry = left.next();
        if (!given.has(entry.getKey())) {
          hide(entry.getKey(), entry.getValue());
          left.remove();
        }
      }
      if (own.isEmpty()) {
        queries.remove(query);
      }
    }
  }

  /** Show nothing more. */
  public void close() {
    synchronized (registry) {
      isClosed = true;
      queries.values().forEach(own -> own.forEach(this::hide));
      queries.clear();
    }
  }

  private void hide(String name, Held held) {
    if (registry.getMetrics().get(name) == held) {
      registry.remove(name);
    }
  }

  /** A value, which a sink that is just reading may still hold when the gauge is gone. */
  private static final class Held implements Gauge<Double> {
    private volatile double value;

    @Override
    public Double getValue() {
      return value;
    }
  }

  private record Shared(MetricsSystem system, MetricRegistry metricRegistry) implements Source {
    @Override
    public String sourceName() {
      return "bsjoin";
    }
  }
}
