package bsjoin.jvm.planner;

import org.apache.spark.sql.catalyst.plans.logical.BROADCAST$;
import org.apache.spark.sql.catalyst.plans.logical.HintInfo;
import org.apache.spark.sql.catalyst.plans.logical.Join;
import org.apache.spark.sql.catalyst.plans.logical.JoinStrategyHint;
import org.apache.spark.sql.catalyst.plans.logical.SHUFFLE_MERGE$;
import org.apache.spark.sql.catalyst.plans.logical.SHUFFLE_REPLICATE_NL$;
import scala.Option;

/** What the hints of a query say about how it is joined. */
public final class Hints {
  private Hints() {}

  /**
   * Whether a join's hints leave it to the index: one for the table asks for nothing else than not
   * to move the stream's rows, and none for the stream asks for a way to join that is Spark's.
   */
  static boolean allow(Join join, boolean tableIsRight) {
    Object table = strategy(tableIsRight ? join.hint().rightHint() : join.hint().leftHint());
    Object stream = strategy(tableIsRight ? join.hint().leftHint() : join.hint().rightHint());
    // Adaptive execution gives the others to a side whose size it knows.
    boolean asksForOther =
        stream == BROADCAST$.MODULE$
            || stream == SHUFFLE_MERGE$.MODULE$
            || stream == SHUFFLE_REPLICATE_NL$.MODULE$;
    return (table == null || table == BROADCAST$.MODULE$) && !asksForOther;
  }

  private static Object strategy(Option<HintInfo> hint) {
    Option<JoinStrategyHint> found = hint.flatMap(HintInfo::strategy);
    return found.getOrElse(() -> null);
  }
}
