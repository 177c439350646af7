package bsjoin.jvm.planner;

import bsjoin.jvm.spark.Function;
import com.fasterxml.jackson.databind.JsonNode;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.catalyst.expressions.ApplyFunctionExpression;
import org.apache.spark.sql.catalyst.expressions.Expression;
import org.apache.spark.sql.types.DataTypes;

/**
 * The condition {@code where=} of a join by {@code bsjoin.join}, in a filter above the call of {@link
 * Matches}: {@link JoinStrategy} makes one join of the two.
 *
 * <p>There Spark resolves the condition's names, and finds out which columns it needs. It is part of
 * the join's condition, and no filter, so that the optimizer must not take it apart, move it, or
 * conclude anything from it: it is not deterministic to Spark ({@code once} of {@link Function}).
 *
 * <p>Its specification says {@code how} the table is joined, which the call below it, a left join or
 * one that takes some of the rows, does not; and how many rows match at {@code most}.
 */
public final class Where extends Function<Boolean> {
  final String how;
  final int most; // rows that match, of those that pass, in the order of the finder

  public Where(String spec, JsonNode node) {
    super(spec, node, DataTypes.BooleanType, DataTypes.BooleanType);
    how = node.path("how").asText();
    most = node.path("most").asInt(Integer.MAX_VALUE);
  }

  /** The function that a condition is a call of; null for any other condition. */
  static Where of(Expression condition) {
    return condition instanceof ApplyFunctionExpression call
            && call.function() instanceof Where where
        ? where
        : null;
  }

  @Override
  public String name() {
    return "bsjoin_where";
  }

  @Override
  public Boolean produceResult(InternalRow arguments) {
    throw Matches.unplanned();
  }
}
