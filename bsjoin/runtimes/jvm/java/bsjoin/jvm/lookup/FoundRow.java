package bsjoin.jvm.lookup;

import bsjoin.jvm.spark.OwnExpression;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.catalyst.expressions.Expression;
import org.apache.spark.sql.catalyst.expressions.codegen.CodegenContext;
import org.apache.spark.sql.catalyst.expressions.codegen.ExprCode;
import org.apache.spark.sql.types.DataType;
import org.apache.spark.sql.types.DataTypes;
import scala.collection.immutable.IndexedSeq;

/**
 * The reference of the row that a {@link LookupExec} has found, negative if there is none; or how many
 * rows there are from it on, where all that match are one result.
 */
public final class FoundRow extends OwnExpression {
  final boolean isCount;

  /** The reference. */
  public FoundRow() {
    this(false);
  }

  /** One of the two. */
  public FoundRow(boolean isCount) {
    super(isCount);
    this.isCount = isCount;
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
    throw new UnsupportedOperationException();
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
    return isCount ? "count" : "found";
  }
}
