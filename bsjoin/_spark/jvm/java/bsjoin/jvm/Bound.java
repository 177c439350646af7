package bsjoin.jvm;

import org.apache.spark.TaskContext;
import org.apache.spark.TaskKilledException;
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
import org.apache.spark.unsafe.Platform;
import scala.collection.immutable.IndexedSeq;

/**
 * The code that bounds the rows of a range index, from a value of the stream's row; null if no row
 * is found.
 *
 * <p>Spark evaluates the value where it compares it with a row of the table, which may never happen.
 * Here it is evaluated for each row of the stream, so an error in it is none: the bound then leaves
 * out no row, and the condition, which stays beside the search, has the error.
 */
public final class Bound extends OwnExpression {
  private final Expression child;
  private final CodeBound rule;
  private final boolean isSafe; // the value has no errors

  Bound(Expression child, CodeBound rule, boolean isSafe) {
    super(child, rule, isSafe);
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
      passOn(e);
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

  /** Throw an error that ends the task, and not only the value. */
  public static void passOn(Exception error) {
    TaskContext task = TaskContext.get();
    boolean ends = task != null && task.isInterrupted();
    for (Throwable at = error; at != null && !ends; at = at.getCause()) {
      ends = at instanceof TaskKilledException || at instanceof InterruptedException;
    }
    if (ends) {
      Platform.throwException(error);
    }
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
          "} catch (Exception " + error + ") {\n" + Bound.class.getName() + ".passOn(" + error
              + ");\n" + isNull + " = false;\n" + code + " = "
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

  @Override
  public Expression withNewChildrenInternal(IndexedSeq<Expression> children) {
    return new Bound(children.head(), rule, isSafe);
  }
}
