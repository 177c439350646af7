package bsjoin.jvm.planner;

import bsjoin.jvm.spark.Function;
import bsjoin.jvm.spark.Scala;
import bsjoin.jvm.storage.TableError;
import com.fasterxml.jackson.databind.node.MissingNode;
import java.util.Arrays;
import java.util.List;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.catalyst.expressions.ApplyFunctionExpression;
import org.apache.spark.sql.catalyst.expressions.Expression;
import org.apache.spark.sql.catalyst.expressions.Literal$;
import org.apache.spark.sql.connector.catalog.functions.BoundFunction;
import org.apache.spark.sql.types.DataType;
import org.apache.spark.sql.types.DataTypes;
import org.apache.spark.sql.types.StructType;

/**
 * {@code bsjoin.as_of(stream, table, direction, tolerance, exact, n)} in the condition of a join: of
 * the rows with the same key, the table's row is the nearest one to the stream's value, or one of the
 * {@code n} nearest ones.
 *
 * <p>The last four may be left out, from the right: {@code 'backward'}, no tolerance, true, 1. It says
 * something of a pair of rows that only the whole table decides, so nothing but a join by the index
 * answers it: {@link AsOfCondition}. All else that calls it gets an error.
 */
public final class AsOf extends Function<Boolean> {
  public static final String NAME = "as_of";

  public AsOf(DataType... types) {
    super(NAME, MissingNode.getInstance(), DataTypes.BooleanType, types);
  }

  @Override
  public String name() {
    return "bsjoin." + NAME;
  }

  @Override
  public BoundFunction bind(StructType given) {
    if (given.length() < 2 || given.length() > 6) {
      throw new UnsupportedOperationException(
          name() + " takes 2 to 6 arguments, not " + given.length() + ": the stream's value, the "
              + "table's column, 'backward' (default), 'forward' or 'nearest', the tolerance (NULL "
              + "for any distance), whether a row with the same value matches (default true), and how "
              + "many rows match (default 1)");
    }
    return new AsOf(types(given));
  }

  /** What is never null Spark need not call, and it has to fail. */
  @Override
  public boolean isResultNullable() {
    return true;
  }

  /** The arguments of a call; null for any other expression. */
  static List<Expression> arguments(Expression call) {
    return call instanceof ApplyFunctionExpression its && its.function() instanceof AsOf
        ? Scala.list(call.children())
        : null;
  }

  static Expression call(Expression stream, Expression table, boolean isBackward, boolean exact) {
    Literal$ literal = Literal$.MODULE$;
    String direction = isBackward ? "backward" : "forward";
    Expression[] arguments = {
      stream, table, literal.apply(direction), literal.apply(null), literal.apply(exact)
    };
    DataType[] types =
        Arrays.stream(arguments).map(Expression::dataType).toArray(DataType[]::new);
    return new ApplyFunctionExpression(new AsOf(types), Scala.seq(arguments));
  }

  @Override
  public Boolean produceResult(InternalRow arguments) {
    throw TableError.of(
        "ArgumentError",
        "bsjoin.as_of(...) is answered by the index of a stored table only, and Spark has planned "
            + "this join without it. Write it in the condition of a join with a table of the "
            + "catalog bsjoin that was built for when=AsOf(...) or Band(...), joined on all of "
            + "its key columns, with nothing but selections and filters above the table; use no "
            + "hint of another strategy, and leave spark.bsjoin.planner on");
  }
}
