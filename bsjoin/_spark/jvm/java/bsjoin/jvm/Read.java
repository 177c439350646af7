package bsjoin.jvm;

import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.catalyst.expressions.Expression;
import org.apache.spark.sql.catalyst.expressions.codegen.Block;
import org.apache.spark.sql.catalyst.expressions.codegen.CodeBlock$;
import org.apache.spark.sql.catalyst.expressions.codegen.CodeGenerator;
import org.apache.spark.sql.catalyst.expressions.codegen.CodegenContext;
import org.apache.spark.sql.catalyst.expressions.codegen.ExprCode;
import org.apache.spark.sql.catalyst.expressions.codegen.FalseLiteral$;
import org.apache.spark.sql.types.BinaryType;
import org.apache.spark.sql.types.DataType;
import org.apache.spark.sql.types.DecimalType;
import org.apache.spark.sql.types.StringType;
import scala.collection.immutable.IndexedSeq;

/**
 * A column of a stored table in the row of a reference; null if the reference is negative.
 *
 * <p>Its generated code is two calls of {@link Columns}, small enough to stand in one method with
 * those of many other columns.
 */
public final class Read extends OwnExpression {
  private final Columns columns;
  private final int number; // of the column
  private final String name;
  private final DataType type;
  private final boolean hasNulls; // the column, in this version
  private final boolean mayMiss; // whether there may be no row
  private final Expression reference;

  Read(
      Columns columns, int number, String name, DataType type, boolean hasNulls, boolean mayMiss,
      Expression reference) {
    super(columns, number, name, type, hasNulls, mayMiss, reference);
    this.columns = columns;
    this.number = number;
    this.name = name;
    this.type = type;
    this.hasNulls = hasNulls;
    this.mayMiss = mayMiss;
    this.reference = reference;
  }

  @Override
  public ExprCode doGenCode(CodegenContext context, ExprCode code) {
    ExprCode row = reference.genCode(context);
    String opened = opened(context);
    String java = CodeGenerator.javaType(type);
    StringBuilder text = new StringBuilder(row.code().toString());
    String get = opened + "." + getter(number + ", " + row.value());
    if (!hasNulls && !mayMiss) {
      text.append(java + " " + code.value() + " = " + get + ";\n");
      return new ExprCode(block(text), FalseLiteral$.MODULE$, code.value());
    }
    String isNull =
        hasNulls ? opened + ".isNull(" + number + ", " + row.value() + ")" : row.value() + " < 0L";
    text.append("boolean " + code.isNull() + " = " + isNull + ";\n");
    String none = CodeGenerator.defaultValue(type, false);
    text.append(
        java + " " + code.value() + " = " + code.isNull() + " ? " + none + " : " + get + ";\n");
    return code.copy(block(text), code.isNull(), code.value());
  }

  private static Block block(CharSequence text) {
    return CodeBlock$.MODULE$.apply(Scala.seq(text.toString()), Scala.seq());
  }

  /** The variable that has the columns opened: one for all columns of a table in a join. */
  private String opened(CodegenContext context) {
    int place = 0;
    while (place < context.references().size() && context.references().apply(place) != columns) {
      place++;
    }
    if (place == context.references().size()) {
      context.references().$plus$eq(columns);
    }
    String variable = "bsjoin_columns_" + place;
    String object = "((" + Columns.class.getName() + ") references[" + place + "]).open()";
    context.addImmutableStateIfNotExists(
        Columns.class.getName(), variable, Scala.function(name -> name + " = " + object + ";"));
    return variable;
  }

  private String getter(String arguments) {
    if (type instanceof StringType) {
      return "getUTF8String(" + arguments + ")";
    }
    if (type instanceof BinaryType) {
      return "getBinary(" + arguments + ")";
    }
    if (type instanceof DecimalType) {
      DecimalType decimal = (DecimalType) type;
      return "getDecimal(" + arguments + ", " + decimal.precision() + ", " + decimal.scale() + ")";
    }
    String primitive = CodeGenerator.javaType(type);
    return "get" + Character.toUpperCase(primitive.charAt(0)) + primitive.substring(1)
        + "(" + arguments + ")";
  }

  private transient Columns open;

  @Override
  public Object eval(InternalRow input) {
    if (open == null) {
      open = columns.open();
    }
    long row = (Long) reference.eval(input);
    if (open.isNull(number, row)) {
      return null;
    }
    if (type instanceof StringType) {
      return open.getUTF8String(number, row);
    }
    if (type instanceof BinaryType) {
      return open.getBinary(number, row);
    }
    if (type instanceof DecimalType) {
      DecimalType decimal = (DecimalType) type;
      return open.getDecimal(number, row, decimal.precision(), decimal.scale());
    }
    switch (CodeGenerator.javaType(type)) {
      case "boolean":
        return open.getBoolean(number, row);
      case "byte":
        return open.getByte(number, row);
      case "short":
        return open.getShort(number, row);
      case "int":
        return open.getInt(number, row);
      case "float":
        return open.getFloat(number, row);
      case "double":
        return open.getDouble(number, row);
      default:
        return open.getLong(number, row);
    }
  }

  @Override
  public boolean nullable() {
    return hasNulls || mayMiss;
  }

  @Override
  public DataType dataType() {
    return type;
  }

  @Override
  public Expression withNewChildrenInternal(IndexedSeq<Expression> children) {
    return new Read(columns, number, name, type, hasNulls, mayMiss, children.head());
  }

  @Override
  public String toString() {
    return name;
  }

  @Override
  public String sql() {
    return name;
  }
}
