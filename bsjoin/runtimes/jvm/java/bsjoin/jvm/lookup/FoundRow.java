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
 * The reference of the row that a {@link LookupExec} has found, negative if there is none. Where all
 * that match are one result, also what it has of them: how many rows there are from that one on, or
 * the array of a {@link Collector}.
 */
public final class FoundRow extends OwnExpression {
  final int place; // 0: the reference; 1: what there is of all
  private final DataType type;

  public FoundRow() {
    this(0, DataTypes.LongType);
  }

  private FoundRow(int place, DataType type) {
    super(place, type);
    this.place = place;
    this.type = type;
  }

  public static FoundRow count() {
    return new FoundRow(1, DataTypes.LongType);
  }

  public static FoundRow array(DataType type) {
    return new FoundRow(1, type);
  }

  @Override
  public boolean nullable() {
    return false;
  }

  @Override
  public DataType dataType() {
    return type;
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
    return place == 0 ? "found" : type == DataTypes.LongType ? "count" : "array";
  }
}
