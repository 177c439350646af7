package bsjoin.jvm;

import java.util.Map;
import java.util.WeakHashMap;
import org.apache.spark.sql.catalyst.QueryPlanningTracker;
import org.apache.spark.unsafe.types.UTF8String;
import scala.Option;

/**
 * The time by which the query that is being planned chooses the versions of its tables: the
 * timestamp of the micro-batch, or one instant of the query's planning.
 */
final class PlanTime {
  private static final Map<Object, PlanTime> INSTANTS = new WeakHashMap<>();

  final long us; // since the epoch
  final boolean goesOn; // in real-time mode, whose batches run for minutes

  private PlanTime(long us, boolean goesOn) {
    this.us = us;
    this.goesOn = goesOn;
  }

  /** The time of the query that is planned in this thread; the same for all of its tables. */
  static PlanTime current() {
    Object query = query();
    synchronized (INSTANTS) {
      return query == null ? chosen() : INSTANTS.computeIfAbsent(query, unknown -> chosen());
    }
  }

  private static PlanTime chosen() {
    UTF8String batch = BatchTime.current();
    boolean goesOn = batch.equals(BatchTime.NOW);
    return goesOn || batch.equals(BatchTime.UNKNOWN)
        ? new PlanTime(System.currentTimeMillis() * 1000, goesOn)
        : new PlanTime(Long.parseLong(batch.toString()), false);
  }

  /** What stands for the query; null if that is not known. */
  private static Object query() {
    try {
      Option<QueryPlanningTracker> found = QueryPlanningTracker.get();
      return found.isDefined() ? found.get() : null;
    } catch (LinkageError e) {
      return null;
    }
  }
}
