package bsjoin.jvm.metrics;

import com.codahale.metrics.Gauge;
import com.codahale.metrics.Metric;
import com.codahale.metrics.MetricRegistry;
import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import java.io.IOException;
import java.util.HashMap;
import java.util.Map;
import org.apache.spark.SparkEnv;
import org.apache.spark.metrics.MetricsSystem;

/**
 * Gauges of one listener in the metrics system of the driver, and so in all its sinks: the servlets
 * of the UI, JMX and others. Their values are the last ones that were set.
 *
 * <p>All listeners of an application share one source: Spark removes a source by its name, and so
 * those of the others with it. Where two show a gauge of one name, it is that of the last one.
 */
public final class Published {
  private static final ObjectMapper JSON = new ObjectMapper();

  private static MetricRegistry shared; // of this application, guarded by the class
  private static MetricsSystem sharedIn;

  private final MetricRegistry registry = registry();

  /** By query its gauges by their names, guarded by the registry. */
  private final Map<String, Map<String, Held>> queries = new HashMap<>();

  private boolean isClosed;

  private static synchronized MetricRegistry registry() {
    MetricsSystem system = SparkEnv.get().metricsSystem();
    if (sharedIn != system) {
      sharedIn = system;
      shared = new MetricRegistry();
      system.registerSource(new LookupSource.Registered("bsjoin", shared));
    }
    return shared;
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
        if (held == null) {
          held = new Held();
          own.put(name, held);
          registry.remove(name); // another listener's
        }
        held.value = entry.getValue().asDouble();
        if (!shown.containsKey(name)) {
          registry.register(name, held);
        }
      }
      own.forEach((name, held) -> {
        if (!given.has(name)) {
          hide(name, held);
        }
      });
      own.keySet().removeIf(name -> !given.has(name));
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
}
