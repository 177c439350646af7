package bsjoin.jvm;

import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import org.apache.spark.sql.catalyst.expressions.AttributeReference;
import org.apache.spark.sql.catalyst.expressions.AttributeSet;
import org.apache.spark.sql.catalyst.expressions.ExprId;
import org.apache.spark.sql.catalyst.expressions.Expression;
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;
import org.apache.spark.sql.types.IntegralType;

/**
 * An optimized join that the index of a stored table answers: all key columns of the table are
 * equal to expressions of the other side, and nothing but selections and filters is above the table.
 * What else the join or the table's side demands of a pair of rows is its {@link #residual}.
 */
final class IndexJoin {
  final String path; // of the table
  final long epoch;
  final List<String> python;
  final Manifest manifest; // of the version that is joined
  final LogicalPlan stream;

  /** The columns that the table's scan reads, by their name in the table. */
  final Map<ExprId, String> columns = new HashMap<>();

  /** The keys: expressions of the stream's columns, in the order of the table's. */
  final List<Expression> keys = new ArrayList<>();

  /** The other conditions on a pair of rows, of the stream's and the scan's columns. */
  final List<Expression> residual = new ArrayList<>();

  private IndexJoin(
      LogicalPlan stream, String path, long epoch, List<String> python, Manifest manifest) {
    this.stream = stream;
    this.path = path;
    this.epoch = epoch;
    this.python = python;
    this.manifest = manifest;
  }

  /** Whether the key is one integer, which is searched as a long. */
  boolean isInteger() {
    return manifest.keyTypes.size() == 1 && manifest.keyTypes.get(0) instanceof IntegralType;
  }

  /** Whether an expression has columns of the stream, and no others. */
  boolean isOfStream(Expression expression) {
    AttributeSet references = expression.references();
    return references.nonEmpty() && references.subsetOf(stream.outputSet());
  }

  /** The name of the table's column that an expression is; null if it is none. */
  String column(Expression expression) {
    return expression instanceof AttributeReference
        ? columns.get(((AttributeReference) expression).exprId())
        : null;
  }
}
