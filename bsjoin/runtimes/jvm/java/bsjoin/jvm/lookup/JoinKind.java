package bsjoin.jvm.lookup;

import org.apache.spark.sql.catalyst.plans.Cross$;
import org.apache.spark.sql.catalyst.plans.ExistenceJoin;
import org.apache.spark.sql.catalyst.plans.Inner$;
import org.apache.spark.sql.catalyst.plans.JoinType;
import org.apache.spark.sql.catalyst.plans.LeftAnti$;
import org.apache.spark.sql.catalyst.plans.LeftOuter$;
import org.apache.spark.sql.catalyst.plans.LeftSemi$;
import org.apache.spark.sql.catalyst.plans.RightOuter$;

/** Which rows a join makes of a row of the stream. */
public enum JoinKind {
  /** One for each match. */
  INNER,
  /** One for each match, or one with nulls. */
  OUTER,
  /** The row itself if there is a match. */
  SEMI,
  /** The row itself if there is no match. */
  ANTI,
  /** The row itself, with whether there is a match. */
  EXISTENCE;

  /** Whether a row of the stream makes one row at most. */
  public boolean isFilter() {
    return this != INNER && this != OUTER;
  }

  /**
   * Whether a row of the stream makes a result.
   *
   * @param matches whether there is a match (that was not used yet)
   * @param isFirst whether it had none before
   */
  boolean keeps(boolean matches, boolean isFirst) {
    return switch (this) {
      case INNER, SEMI -> matches;
      case OUTER -> matches || isFirst;
      case EXISTENCE -> true;
      case ANTI -> !matches;
    };
  }

  /** The kind of a join whose table is on one side; null where the table's rows stay, too. */
  public static JoinKind of(JoinType type, boolean tableIsRight) {
    if (type == Inner$.MODULE$ || type == Cross$.MODULE$) {
      return INNER;
    }
    if (type == RightOuter$.MODULE$) {
      return tableIsRight ? null : OUTER;
    }
    if (!tableIsRight) {
      return null;
    }
    return type == LeftOuter$.MODULE$ ? OUTER
        : type == LeftSemi$.MODULE$ ? SEMI
        : type == LeftAnti$.MODULE$ ? ANTI
        : type instanceof ExistenceJoin ? EXISTENCE
        : null;
  }
}
