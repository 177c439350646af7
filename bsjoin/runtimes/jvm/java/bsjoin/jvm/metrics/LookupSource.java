package bsjoin.jvm.metrics;

import bsjoin.jvm.storage.Mapping;
import bsjoin.jvm.storage.Table;
import com.codahale.metrics.Gauge;
import com.codahale.metrics.MetricRegistry;
import java.lang.ref.WeakReference;
import java.util.List;
import java.util.Properties;
import java.util.concurrent.CopyOnWriteArrayList;
import java.util.function.Consumer;
import java.util.function.LongSupplier;
import org.apache.spark.SparkEnv;
import org.apache.spark.metrics.MetricsSystem;
import org.apache.spark.metrics.source.Source;

/**
 * What the look-ups of this executor have done, and what they have open, in its metrics system: a
 * source that all sinks of executors have. It is registered when the first task looks up.
 *
 * <p>Spark's metrics system is not part of its public API. So joins know this class by its name
 * alone, see {@code Counts}: where it does not work they run without it.
 *
 * <p>Under Spark Connect each session loads its own copy of this class. All copies of a JVM share one
 * source, which is kept in classes that they share, too; a copy that is unloaded has nothing open.
 */
public final class LookupSource implements Consumer<long[]> {
  private static final String NAME = "bsjoin_lookups";
  private static final String PLACE = "bsjoin.lookups"; // among the properties of the JVM
  private static final String[] COUNTED = {
    "input_rows", "hit_rows", "output_rows", "open_nanoseconds"
  };
  private static final String[] OPENED = {"open_tables", "mapped_bytes"};

  /** What this copy has open, by the names. */
  private static final LongSupplier[] OPEN = {Table::open, Mapping::mapped};

  private MetricsSystem system;
  private MetricRegistry registry;

  /** Add what a task has counted, by the names: zeros when it begins. */
  @Override
  public synchronized void accept(long[] counts) {
    SparkEnv env = SparkEnv.get();
    if (env == null) { // the application has ended
      return;
    }
    if (env.metricsSystem() != system) {
      registry = registryOf(env.metricsSystem());
      system = env.metricsSystem();
    }
    for (int i = 0; i < COUNTED.length; i++) {
      registry.counter(COUNTED[i]).inc(counts[i]);
    }
  }

  /** The registry of the source of this JVM, which sums up what all copies have open. */
  private static MetricRegistry registryOf(MetricsSystem system) {
    Properties properties = System.getProperties();
    synchronized (properties) {
      Object[] shared = (Object[]) properties.get(PLACE);
      if (shared == null || shared[0] != system) {
        List<WeakReference<LongSupplier[]>> copies = new CopyOnWriteArrayList<>();
        MetricRegistry made = new MetricRegistry();
        for (int i = 0; i < OPENED.length; i++) {
          int place = i;
          made.register(OPENED[i], (Gauge<Long>) () -> sum(copies, place));
        }
        shared = new Object[] {system, made, copies};
        properties.put(PLACE, shared);
        system.registerSource(new Registered(NAME, made));
      }
      @SuppressWarnings("unchecked")
      List<WeakReference<LongSupplier[]>> copies = (List<WeakReference<LongSupplier[]>>) shared[2];
      copies.removeIf(copy -> copy.get() == null);
      copies.add(new WeakReference<>(OPEN));
      return (MetricRegistry) shared[1];
    }
  }

  private static long sum(List<WeakReference<LongSupplier[]>> copies, int place) {
    long sum = 0;
    for (WeakReference<LongSupplier[]> copy : copies) {
      LongSupplier[] open = copy.get();
      sum += open == null ? 0 : open[place].getAsLong();
    }
    return sum;
  }

  /** A source with the name and the metrics that Spark asks for. */
  record Registered(String sourceName, MetricRegistry metricRegistry) implements Source {}
}
