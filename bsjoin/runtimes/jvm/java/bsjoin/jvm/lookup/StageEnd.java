package bsjoin.jvm.lookup;

import bsjoin.jvm.spark.OwnPlan;
import org.apache.spark.rdd.RDD;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.execution.SparkPlan;
import scala.collection.immutable.IndexedSeq;

/**
 * Ends a stage of generated code, and passes its rows on: what is above takes one at a time, and may
 * make any number of rows of it.
 */
public final class StageEnd extends OwnPlan {
  public StageEnd(SparkPlan child) {
    super(child);
  }

  @Override
  public RDD<InternalRow> doExecute() {
    return child.execute();
  }

  @Override
  public String nodeName() {
    return "BsjoinStageEnd";
  }

  @Override
  public SparkPlan withNewChildrenInternal(IndexedSeq<SparkPlan> children) {
    return new StageEnd(children.head());
  }
}
