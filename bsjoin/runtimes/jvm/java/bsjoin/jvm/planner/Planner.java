package bsjoin.jvm.planner;

import bsjoin.jvm.spark.Scala;
import bsjoin.jvm.spark.SessionSettings;
import java.util.ArrayList;
import java.util.List;
import org.apache.spark.sql.ExperimentalMethods;
import org.apache.spark.sql.classic.SparkSession;
import org.apache.spark.sql.execution.SparkStrategy;
import org.apache.spark.sql.internal.SQLConf;
import org.slf4j.LoggerFactory;
import scala.Option;

/**
 * Adds the {@link JoinStrategy} to sessions. The setting {@code spark.bsjoin.planner} switches it
 * {@code on}, which is the default, or {@code off}: joins are then Spark's own, over a scan.
 */
public final class Planner {
  private static final String SETTING = "spark.bsjoin.planner";

  private Planner() {}

  /** Let the active session, which plans a query with a stored table, join by the index. */
  public static void install() {
    try {
      Option<SparkSession> active = SparkSession.getActiveSession();
      if (active.isDefined()) {
        install(active.get());
      }
    } catch (LinkageError | ClassCastException e) {
      Linkage.failed(String.valueOf(e));
    }
  }

  private static void install(SparkSession session) {
    ExperimentalMethods methods = session.experimental();
    if (has(methods)) {
      return;
    }
    synchronized (methods) {
      if (!has(methods)) {
        List<SparkStrategy> strategies = new ArrayList<>(Scala.list(methods.extraStrategies()));
        strategies.add(0, new JoinStrategy());
        addCounting(strategies);
        methods.extraStrategies_$eq(Scala.seq(strategies));
      }
    }
  }

  /** By its name: a Spark in which it cannot be made joins without it. */
  private static void addCounting(List<SparkStrategy> strategies) {
    try {
      Class<?> counting = Class.forName("bsjoin.jvm.spark.CountingStrategy");
      strategies.add(0, (SparkStrategy) counting.getConstructor().newInstance());
    } catch (ReflectiveOperationException | LinkageError e) {
      LoggerFactory.getLogger("bsjoin")
          .warn("bsjoin: rows of kafka.route and HotSpot are not counted", e);
    }
  }

  private static boolean has(ExperimentalMethods methods) {
    return methods.extraStrategies().exists(Scala.function(one -> one instanceof JoinStrategy));
  }

  /** Whether the session that is planning wants it. */
  public static boolean isOn() {
    return SessionSettings.isOn(SQLConf.get(), SETTING) && Linkage.isWhole();
  }
}
