package bsjoin.jvm.lookup;

import bsjoin.jvm.spark.OwnExpression;
import bsjoin.jvm.spark.Scala;
import java.io.Serializable;
import java.util.ArrayList;
import java.util.List;
import org.apache.spark.TaskContext;
import org.apache.spark.sql.catalyst.expressions.Attribute;
import org.apache.spark.sql.catalyst.expressions.AttributeReference;
import org.apache.spark.sql.catalyst.expressions.CreateStruct;
import org.apache.spark.sql.catalyst.expressions.Expression;
import org.apache.spark.sql.catalyst.expressions.GetStructField;
import org.apache.spark.sql.catalyst.expressions.NamedExpression;
import org.apache.spark.sql.execution.MapPartitionsExec;
import org.apache.spark.sql.execution.ProjectExec;
import org.apache.spark.sql.execution.SparkPlan;
import org.apache.spark.sql.types.Metadata;
import org.apache.spark.sql.types.StructType;
import scala.Option;
import scala.collection.Iterator;
import scala.runtime.AbstractFunction1;

/**
 * A {@link LookupExec} in real-time mode, which admits a list of Spark's own operators by their names:
 * the function of a {@link MapPartitionsExec}, whose rows are structs.
 */
public final class RealTimeLookup extends AbstractFunction1<Iterator<Object>, Iterator<Object>>
    implements Serializable {
  private final LookupRows rows;
  private final String description;

  private RealTimeLookup(LookupExec planned) {
    rows = planned.rows();
    description = planned.simpleString(Integer.MAX_VALUE);
  }

  /** The plan of a join whose stream is planned as {@code child}. */
  public static SparkPlan of(LookupExec planned, SparkPlan child) {
    List<Attribute> output = Scala.list(planned.output());
    StructType type = new StructType();
    for (Attribute column : output) {
      type = type.add(column.name(), column.dataType(), column.nullable(), column.metadata());
    }
    Attribute result =
        new AttributeReference(
            "bsjoin_result", type, false, Metadata.empty(), NamedExpression.newExprId(),
            Scala.seq());
    List<NamedExpression> columns = new ArrayList<>();
    for (Attribute column : output) {
      Expression value = new GetStructField(result, columns.size(), Option.empty());
      columns.add(OwnExpression.alias(value, column.name(), column.exprId()));
    }
    NamedExpression row =
        OwnExpression.alias(
            CreateStruct.apply(Scala.seq(Scala.list(child.output()))), "bsjoin_row",
            NamedExpression.newExprId());
    planned.doPrepare(); // the plan below does not
    SparkPlan packed = new ProjectExec(Scala.seq(row), child);
    return new ProjectExec(
        Scala.seq(columns), new MapPartitionsExec(new RealTimeLookup(planned), result, packed));
  }

  @Override
  @SuppressWarnings({"rawtypes", "unchecked"})
  public Iterator<Object> apply(Iterator<Object> structs) {
    return (Iterator) rows.apply(TaskContext.getPartitionId(), (Iterator) structs);
  }

  @Override
  public String toString() {
    return description;
  }
}
