package bsjoin.jvm.lookup;

import bsjoin.jvm.spark.OwnExpression;
import bsjoin.jvm.spark.Scala;
import bsjoin.jvm.storage.Column;
import bsjoin.jvm.storage.Version;
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
import scala.collection.immutable.IndexedSeq;

/**
 * A column of a stored table in the row of a reference; null if the reference is negative.
 *
 * <p>Its generated code is a call of {@link Columns} and one or two of a column, small enough to
 * stand in one method with those of many other columns.
 */
public final class Read extends OwnExpression {
  private final Columns columns;
  private final int number; // of the column
  private final String name;
  private final DataType type;
  private final boolean hasNulls; // the column, in this version
  private final boolean mayMiss; // whether there may be no row
  private final Expression reference;

  public Read(
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
    String opened = opened(context, columns);
    String column = context.freshName("column");
    String at = Version.class.getName() + ".row(" + row.value() + ")";
    String text =
        row.code() + Column.class.getName() + " " + column + " = " + opened + ".column("
            + number + ", " + row.value() + ");\n";
    String isNull =
        column + " == null" + (hasNulls ? " || " + column + ".isNullAt(" + at + ")" : "");
    return value(code, type, text, nullable() ? isNull : null, column + "." + getter(at));
  }

  /** What reads the column in many rows before. */
  ReadAhead ahead() {
    return new ReadAhead(columns.open(), number);
  }

  /** The code of a value, behind other code; it is never null if nothing says when it is. */
  static ExprCode value(ExprCode own, DataType type, String before, String isNull, String get) {
    String java = CodeGenerator.javaType(type) + " " + own.value() + " = ";
    if (isNull == null) {
      return new ExprCode(block(before + java + get + ";\n"), FalseLiteral$.MODULE$, own.value());
    }
    String text = before + "boolean " + own.isNull() + " = " + isNull + ";\n" + java + own.isNull()
        + " ? " + CodeGenerator.defaultValue(type, false) + " : " + get + ";\n";
    return own.copy(block(text), own.isNull(), own.value());
  }

  private static Block block(String text) {
    return CodeBlock$.MODULE$.apply(Scala.seq(text), Scala.seq());
  }

  /** The variable that has the columns opened: one for all columns of a table in a join. */
  static String opened(CodegenContext context, Columns columns) {
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

  private String getter(String row) {
    if (type instanceof DecimalType decimal) {
      return "getDecimal(" + row + ", " + decimal.precision() + ", " + decimal.scale() + ")";
    }
    String java = type instanceof BinaryType ? "binary" : CodeGenerator.javaType(type);
    return "get" + Character.toUpperCase(java.charAt(0)) + java.substring(1) + "(" + row + ")";
  }

  private transient Columns open;

  @Override
  public Object eval(InternalRow input) {
    if (open == null) {
      open = columns.open();
    }
    long found = (Long) reference.eval(input);
    Column column = open.column(number, found);
    return column == null ? null : column.value(Version.row(found));
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
