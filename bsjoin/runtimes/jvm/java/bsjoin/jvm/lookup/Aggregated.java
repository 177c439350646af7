package bsjoin.jvm.lookup;

import bsjoin.jvm.spark.OwnExpression;
import bsjoin.jvm.spark.Scala;
import bsjoin.jvm.storage.Types;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.catalyst.expressions.Expression;
import org.apache.spark.sql.catalyst.expressions.codegen.CodeGenerator;
import org.apache.spark.sql.catalyst.expressions.codegen.CodegenContext;
import org.apache.spark.sql.catalyst.expressions.codegen.ExprCode;
import org.apache.spark.sql.types.DataType;
import org.apache.spark.sql.types.DecimalType;
import org.apache.spark.sql.types.DoubleType;
import org.apache.spark.sql.types.FloatType;
import scala.collection.immutable.IndexedSeq;

/** An {@link Aggregate} of a column of a stored table, over rows that follow each other. */
public final class Aggregated extends OwnExpression {
  private final Columns columns;
  private final String function;
  final int number; // of the column
  private final DataType type; // of the result
  private final boolean wraps;
  private final Expression reference; // of the first row
  private final Expression count;

  public Aggregated(
      Columns columns, String function, int number, DataType type, boolean wraps,
      Expression reference, Expression count) {
    super(columns, function, number, type, wraps, reference, count);
    this.columns = columns;
    this.function = function;
    this.number = number;
    this.type = type;
    this.wraps = wraps;
    this.reference = reference;
    this.count = count;
  }

  private Aggregate aggregate() {
    return new Aggregate(function, number, type, wraps);
  }

  @Override
  public ExprCode doGenCode(CodegenContext context, ExprCode code) {
    ExprCode row = reference.genCode(context);
    ExprCode rows = count.genCode(context);
    String opened = Read.opened(context, columns);
    String name = Aggregate.class.getName();
    String object = context.addReferenceObj("aggregate", aggregate(), name);
    String aggregate =
        context.addMutableState(
            name, "aggregate",
            Scala.function(state -> state + " = " + object + ".open();"), true, true);
    String getter = isDecimal() ? "decimal" : Types.isFloating(type) ? "number" : "whole";
    String get = "(" + CodeGenerator.javaType(type) + ") " + aggregate + "." + getter + "()";
    String isNull = aggregate + ".isNull(" + opened + ", " + row.value() + ", " + rows.value() + ")";
    String text = row.code().toString() + rows.code() + (nullable() ? "" : isNull + ";\n");
    return Read.value(code, type, text, nullable() ? isNull : null, get);
  }

  /** What reads the column at the ends of many runs before. */
  RunAhead ahead() {
    return new RunAhead(columns.open(), number);
  }

  private boolean isDecimal() {
    return type instanceof DecimalType;
  }

  private transient Columns open;
  private transient Aggregate opened;

  @Override
  public Object eval(InternalRow input) {
    if (open == null) {
      open = columns.open();
      opened = aggregate();
    }
    boolean isNull =
        opened.isNull(open, (Long) reference.eval(input), (Long) count.eval(input));
    if (isNull) {
      return null;
    }
    return isDecimal() ? opened.decimal()
        : type instanceof FloatType ? (Object) (float) opened.number()
        : type instanceof DoubleType ? opened.number()
        : Types.literal(opened.whole(), type).value();
  }

  @Override
  public boolean nullable() {
    return !function.equals("count");
  }

  @Override
  public DataType dataType() {
    return type;
  }

  @Override
  public Expression withNewChildrenInternal(IndexedSeq<Expression> children) {
    return new Aggregated(
        columns, function, number, type, wraps, children.head(), children.last());
  }

  @Override
  public String toString() {
    return function + "(" + columns.name(number) + ")";
  }

  @Override
  public String sql() {
    return toString();
  }
}
