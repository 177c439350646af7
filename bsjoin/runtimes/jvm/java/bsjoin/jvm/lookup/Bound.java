package bsjoin.jvm.lookup;

import bsjoin.jvm.spark.OwnExpression;
import bsjoin.jvm.spark.Scala;
import bsjoin.jvm.storage.Types;
import org.apache.spark.TaskContext;
import org.apache.spark.TaskKilledException;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.catalyst.expressions.AttributeReference;
import org.apache.spark.sql.catalyst.expressions.Cast;
import org.apache.spark.sql.catalyst.expressions.ConditionalExpression;
import org.apache.spark.sql.catalyst.expressions.Expression;
import org.apache.spark.sql.catalyst.expressions.Literal;
import org.apache.spark.sql.catalyst.expressions.codegen.Block;
import org.apache.spark.sql.catalyst.expressions.codegen.CodeBlock;
import org.apache.spark.sql.catalyst.expressions.codegen.CodegenContext;
import org.apache.spark.sql.catalyst.expressions.codegen.ExprCode;
import org.apache.spark.sql.catalyst.expressions.codegen.JavaCode;
import org.apache.spark.sql.types.BinaryType;
import org.apache.spark.sql.types.DataType;
import org.apache.spark.sql.types.DataTypes;
import org.apache.spark.sql.types.Decimal;
import org.apache.spark.sql.types.DecimalType;
import org.apache.spark.sql.types.StringType;
import org.apache.spark.unsafe.Platform;
import org.apache.spark.unsafe.types.UTF8String;
import scala.collection.immutable.IndexedSeq;
import scala.collection.immutable.Seq;

/**
 * The code that bounds the rows of a range index, from a value of the stream's row; null if no row
 * is found.
 *
 * <p>Spark evaluates the value where it compares it with a row of the table, which may never happen.
 * Here it is evaluated for each row of the stream, so an error in it is none: the bound is then
 * {@link RangeBound#limit}, which leaves out no row, and the condition, which stays beside the
 * search, has the error. It is conditional to Spark, which evaluates a value that several
 * expressions have once and before them, where its error would be one.
 */
public final class Bound extends OwnExpression implements ConditionalExpression {
  private final Expression child;
  private final RangeBound rule;
  private final boolean isSafe; // an error is one

  public Bound(Expression child, RangeBound rule, boolean isSafe) {
    super(child, rule, isSafe);
    this.child = child;
    this.rule = rule;
    this.isSafe = isSafe;
  }

  /** Whether a value has no errors, and is as cheap as a column. */
  public static boolean isSafe(Expression value) {
    return value instanceof AttributeReference
        || value instanceof Literal
        || value instanceof Cast cast
            && Types.isWider(cast.dataType(), cast.child().dataType())
            && isSafe(cast.child());
  }

  Expression value() {
    return child;
  }

  RangeBound rule() {
    return rule;
  }

  @Override
  public DataType dataType() {
    return rule.type();
  }

  @Override
  public boolean nullable() {
    return child.nullable() && !rule.isOfNull() || mayBeNone();
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
    return rule.of(value);
  }

  private boolean mayBeNone() {
    return rule.mayBeNone() && !isValue() && !Types.isFloating(child.dataType());
  }

  /** Whether the value is the code itself. */
  private boolean isValue() {
    return isSafe && rule.isIdentity() && Types.isFull(child.dataType());
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

  @Override
  public ExprCode doGenCode(CodegenContext context, ExprCode own) {
    ExprCode value = child.genCode(context);
    if (isValue()) {
      return value;
    }
    boolean isRank = rule instanceof RankBound;
    String given = "((" + given() + ") (" + value.value().code() + "))";
    String name = context.addReferenceObj("bound", rule, rule.getClass().getName());
    String code = own.value().code();
    String isNull = own.isNull().code();
    String before =
        "boolean " + isNull + " = false;\n" + (isRank ? "byte[] " : "long ") + code
            + (isRank ? " = null;\n" : " = 0L;\n") + (isSafe ? "" : "try {\n");
    String none = mayBeNone() ? name + ".isNone(" + given + ")" : "false";
    String missing = isRank ? name + ".ofNull();" : rule.ofNull() + "L;";
    String ofNull = rule.isOfNull() ? code + " = " + missing : isNull + " = true;";
    String after =
        "\nif (" + value.isNull().code() + ") {\n" + ofNull + "\n} else if (" + none + ") {\n"
            + isNull + " = true;\n} else {\n" + code + " = " + name
            + (isRank ? ".text(" : ".code(") + given + ");\n}\n";
    if (!isSafe) {
      String error = context.freshName("error");
      String limit = isRank ? name + ".limit()" : rule.limit() + "L";
      after +=
          "} catch (Exception " + error + ") {\n" + Bound.class.getName() + ".passOn(" + error
              + ");\n" + isNull + " = false;\n" + code + " = " + limit + ";\n}\n";
    }
    // The code of the value stays a part of its own: escapes in it are not read once more.
    Block block = new CodeBlock(Scala.seq(before, after), Scala.seq((JavaCode) value.code()));
    return own.copy(
        block,
        nullable() ? own.isNull() : JavaCode.literal("false", DataTypes.BooleanType),
        own.value());
  }

  /** The type of Java in which the rule gets the value. */
  private String given() {
    DataType type = child.dataType();
    if (type instanceof StringType) {
      return UTF8String.class.getName();
    }
    if (type instanceof BinaryType) {
      return "byte[]";
    }
    boolean isDecimal = type instanceof DecimalType;
    return isDecimal ? Decimal.class.getName() : Types.isFloating(type) ? "double" : "long";
  }

  public Literal limit() {
    return new Literal(rule.limit(), rule.type());
  }

  @Override
  public Seq<Expression> alwaysEvaluatedInputs() {
    return Scala.seq();
  }

  @Override
  public Bound withNewAlwaysEvaluatedInputs(Seq<Expression> inputs) {
    return this;
  }

  @Override
  public Seq<Seq<Expression>> branchGroups() {
    return Scala.seq();
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
