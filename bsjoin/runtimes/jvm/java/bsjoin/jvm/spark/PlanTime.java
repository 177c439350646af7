package bsjoin.jvm.spark;

import java.util.Map;
import java.util.WeakHashMap;
import org.apache.spark.sql.catalyst.QueryPlanningTracker;
import org.apache.spark.unsafe.types.UTF8String;

/**
 * The time by which the query that is being planned chooses the versions of its tables: the
 * timestamp of the micro-batch, or one instant of the query's planning.
 *
 * @param us since the epoch
 * @param goesOn in real-time mode, whose batches run for minutes
 * @param isBatch of no micro-batch that is known
 */
public record PlanTime(long us, boolean goesOn, boolean isBatch) {
  private static final Map<Object, PlanTime> INSTANTS = new WeakHashMap<>();

  /** The time of the query that is planned in this thread; the same for all of its tables. */
  public static PlanTime current() {
    Object query = query();
    synchronized (INSTANTS) {
      return query == null ? chosen() : INSTANTS.computeIfAbsent(query, unknown -> chosen());
    }
  }

  private static PlanTime chosen() {
    UTF8String batch = BatchTime.current();
    boolean goesOn = batch.equals(BatchTime.NOW);
    boolean isBatch = batch.equals(BatchTime.UNKNOWN);
    return goesOn || isBatch
        ? new PlanTime(System.currentTimeMillis() * 1000, goesOn, isBatch)
        : new PlanTime(Long.parseLong(batch.toString()), false, false);
  }

  /** What stands for the query; null if that is not known. */
  private static Object query() {
    try {
      return QueryPlanningTracker.get().getOrElse(() -> null);
    } catch (LinkageError e) {
      return null;
    }
  }
}
