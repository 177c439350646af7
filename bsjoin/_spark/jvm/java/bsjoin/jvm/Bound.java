package bsjoin.jvm;

import java.io.Serializable;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.catalyst.expressions.Expression;
import org.apache.spark.sql.catalyst.expressions.codegen.Block;
import org.apache.spark.sql.catalyst.expressions.codegen.CodeBlock;
import org.apache.spark.sql.catalyst.expressions.codegen.CodegenContext;
import org.apache.spark.sql.catalyst.expressions.codegen.ExprCode;
import org.apache.spark.sql.catalyst.expressions.codegen.JavaCode;
import org.apache.spark.sql.types.DataType;
import org.apache.spark.sql.types.DataTypes;
import org.apache.spark.sql.types.Decimal;
import org.apache.spark.sql.types.DecimalType;
import org.apache.spark.sql.types.DoubleType;
import org.apache.spark.sql.types.FloatType;
import scala.Function1;
import scala.collection.immutable.IndexedSeq;
import scala.collection.immutable.Seq;

/**
 * The code that bounds the rows of a range index, from a value of the stream's row; null if no row
 * is found.
 *
 * <p>Spark evaluates the value where it compares it with a row of the table, which may never happen.
 * Here it is evaluated for each row of the stream, so an error in it is none: the bound then leaves
 * out no row, and the condition, which stays beside the search, has the error.
 */
public final class Bound extends Expression implements Serializable {
  private final Expression child;
  private final CodeBound rule;
  private final boolean isSafe; // the value has no errors

  Bound(Expression child, CodeBound rule, boolean isSafe) {
    this.child = child;
    this.rule = rule;
    this.isSafe = isSafe;
  }

  @Override
  public DataType dataType() {
    return DataTypes.LongType;
  }

  @Override
  public boolean nullable() {
    return child.nullable() && !rule.isOfNull() || rule.mayBeNone();
  }

  @Override
  public Object eval(InternalRow row) {
    Object value;
    try {
      value = child.eval(row);
    } catch (Exception e) { // a user's function may throw any
      if (isSafe) {
        throw e;
      }
      return rule.limit();
    }
    if (value == null) {
      return rule.isOfNull() ? (Object) Long.MAX_VALUE : null;
    }
    if (value instanceof Decimal) {
      Decimal number = (Decimal) value;
      return rule.mayBeNone() && rule.isNone(number) ? null : (Object) rule.code(number);
    }
    if (isFloating()) {
      return rule.code(((Number) value).doubleValue());
    }
    long number = ((Number) value).longValue();
    return rule.mayBeNone() && rule.isNone(number) ? null : (Object) rule.code(number);
  }

  private boolean isFloating() {
    return child.dataType() instanceof DoubleType || child.dataType() instanceof FloatType;
  }

  @Override
  public ExprCode doGenCode(CodegenContext context, ExprCode own) {
    ExprCode value = child.genCode(context);
    boolean isWhole = !isFloating() && !(child.dataType() instanceof DecimalType);
    boolean isPlain = isSafe && isWhole && rule.isIdentity() && !rule.isOfNull();
    if (isPlain && MovedColumn.isFull(child.dataType())) {
      return value;
    }
    String given = "(" + value.value().code() + ")";
    if (isWhole || isFloating()) {
      given = (isWhole ? "(long) " : "(double) ") + given;
    }
    String name = context.addReferenceObj("bound", rule, CodeBound.class.getName());
    String code = own.value().code();
    String isNull = own.isNull().code();
    String before =
        "boolean " + isNull + " = false;\nlong " + code + " = 0L;\n" + (isSafe ? "" : "try {\n");
    String none = rule.mayBeNone() ? " || " + name + ".isNone(" + given + ")" : "";
    String missing =
        rule.isOfNull()
            ? code + " = Long.MAX_VALUE;\nif (!" + value.isNull().code() + ") {\n"
            : isNull + " = " + value.isNull().code() + none + ";\nif (!" + isNull + ") {\n";
    String after = "\n" + missing + code + " = " + name + ".code(" + given + ");\n}\n";
    if (!isSafe) {
      String error = context.freshName("error");
      after +=
          "} catch (Exception " + error + ") {\n" + isNull + " = false;\n" + code + " = "
              + (rule.limit() == Long.MIN_VALUE ? "Long.MIN_VALUE" : "Long.MAX_VALUE") + ";\n}\n";
    }
    // The code of the value stays a part of its own: escapes in it are not read once more.
    Block block = new CodeBlock(Scala.seq(before, after), Scala.seq((JavaCode) value.code()));
    return own.copy(
        block,
        nullable() ? own.isNull() : JavaCode.literal("false", DataTypes.BooleanType),
        own.value());
  }

  @Override
  public String prettyName() {
    return "bsjoin_" + rule;
  }

  @Override
  public String toString() {
    return prettyName() + "(" + child + ")";
  }

  // What Scala adds to a class of expressions.

  @Override
  public Seq<Expression> children() {
    return Scala.seq(child);
  }

  @Override
  public Expression mapChildren(Function1<Expression, Expression> change) {
    Expression changed = change.apply(child);
    return changed == child ? this : new Bound(changed, rule, isSafe);
  }

  @Override
  public Expression withNewChildrenInternal(IndexedSeq<Expression> children) {
    return new Bound(children.head(), rule, isSafe);
  }

  @Override
  public int productArity() {
    return 3;
  }

  @Override
  public Object productElement(int number) {
    return number == 0 ? child : number == 1 ? rule : (Object) isSafe;
  }

  @Override
  public boolean canEqual(Object other) {
    return other instanceof Bound;
  }

  @Override
  public boolean equals(Object other) {
    return other instanceof Bound && child.equals(((Bound) other).child)
        && rule.equals(((Bound) other).rule) && isSafe == ((Bound) other).isSafe;
  }

  @Override
  public int hashCode() {
    return 31 * child.hashCode() + rule.hashCode();
  }
}
