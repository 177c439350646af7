package bsjoin.jvm.kafka;

import bsjoin.jvm.lookup.LastAttempts;
import bsjoin.jvm.spark.OwnExpression;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.catalyst.expressions.Expression;
import org.apache.spark.sql.catalyst.expressions.codegen.CodegenContext;
import org.apache.spark.sql.catalyst.expressions.codegen.ExprCode;
import org.apache.spark.sql.execution.metric.SQLMetric;
import org.apache.spark.sql.types.DataType;
import org.apache.spark.sql.types.DataTypes;
import scala.collection.immutable.IndexedSeq;

/** What a {@link RouteExec} has counted until now: for the driver. */
public final class RouteCount extends OwnExpression {
  private final SQLMetric[] counted;
  private final int place;

  public RouteCount(SQLMetric[] counted, int place) {
    super(counted, place);
    this.counted = counted;
    this.place = place;
  }

  @Override
  public boolean nullable() {
    return false;
  }

  @Override
  public DataType dataType() {
    return DataTypes.LongType;
  }

  @Override
  public Object eval(InternalRow input) {
    return LastAttempts.values(counted)[place];
  }

  @Override
  public ExprCode doGenCode(CodegenContext context, ExprCode code) {
    throw new UnsupportedOperationException();
  }

  @Override
  public Expression withNewChildrenInternal(IndexedSeq<Expression> children) {
    return this;
  }

  @Override
  public String toString() {
    return counted[place].name().getOrElse(() -> "rows").toString();
  }
}
