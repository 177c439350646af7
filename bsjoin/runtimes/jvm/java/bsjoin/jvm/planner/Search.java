package bsjoin.jvm.planner;

import bsjoin.jvm.lookup.Finder;
import bsjoin.jvm.spark.OwnExpression;
import java.util.ArrayList;
import java.util.List;
import org.apache.spark.sql.catalyst.expressions.Alias;
import org.apache.spark.sql.catalyst.expressions.Expression;
import org.apache.spark.sql.catalyst.expressions.NamedExpression;

/**
 * How the rows of a table that match a row of the stream are found.
 *
 * @param finder what finds them
 * @param arguments what its {@code first} gets after the search value: of the stream's columns
 * @param residual what it does not answer, of the stream's and the table's columns; checked for each
 *     row
 * @param answered what the range index answers, for people
 * @param computed columns of the stream for the arguments and the residual conditions
 * @param limit how many of the rows that fulfil all of it are taken, in the order of the finder
 */
record Search(
    Finder finder,
    List<Expression> arguments,
    List<Expression> residual,
    List<Expression> answered,
    List<Alias> computed,
    int limit) {
  Search(
      Finder finder, List<Expression> arguments, List<Expression> residual,
      List<Expression> answered, List<Alias> computed) {
    this(finder, arguments, residual, answered, computed, Integer.MAX_VALUE);
  }

  /** The same, with one more condition; of the rows that fulfil all, so many are taken. */
  Search with(Expression condition, int limit) {
    List<Expression> all = new ArrayList<>(residual);
    all.add(condition);
    return new Search(finder, arguments, all, answered, computed, limit);
  }

  /** A value as a column that is computed. */
  static Expression column(Expression value, List<Alias> computed) {
    Alias column =
        OwnExpression.alias(value, "bsjoin_computed", NamedExpression.newExprId());
    computed.add(column);
    return column.toAttribute();
  }
}
