package bsjoin.jvm;

import java.io.Serializable;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.catalyst.expressions.Expression;
import org.apache.spark.sql.catalyst.expressions.codegen.CodegenContext;
import org.apache.spark.sql.catalyst.expressions.codegen.ExprCode;
import org.apache.spark.sql.types.DataType;
import org.apache.spark.sql.types.DataTypes;
import scala.collection.immutable.IndexedSeq;
import scala.collection.immutable.Seq;

/** The reference of the row that a {@link LookupExec} has found; negative if there is none. */
public final class FoundRow extends Expression implements Serializable {
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
  public Seq<Expression> children() {
    return Scala.seq();
  }

  @Override
  public Expression withNewChildrenInternal(IndexedSeq<Expression> children) {
    return this;
  }

  @Override
  public String toString() {
    return "found";
  }

  @Override
  public int productArity() {
    return 0;
  }

  @Override
  public Object productElement(int number) {
    throw new IndexOutOfBoundsException();
  }

  @Override
  public boolean canEqual(Object other) {
    return other instanceof FoundRow;
  }

  @Override
  public boolean equals(Object other) {
    return other instanceof FoundRow;
  }

  @Override
  public int hashCode() {
    return 1;
  }
}
