package bsjoin.jvm;

import java.io.Serializable;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.LinkedHashSet;
import java.util.List;
import java.util.Objects;
import java.util.Set;
import java.util.stream.Collectors;
import org.apache.spark.sql.catalyst.expressions.Attribute;
import org.apache.spark.sql.catalyst.expressions.Expression;
import org.apache.spark.sql.catalyst.util.package$;

/** What a {@link LookupExec} does, beside its expressions. */
final class Lookup implements Serializable {
  final JoinKind kind;
  final boolean tableIsRight;
  final Finder finder;
  final int kept; // columns of the input that are those of the stream
  final int compared; // arguments that are keys to compare
  final int extra; // arguments of the finder beside the search value
  final String description;
  final long indexBytes;

  /**
   * What {@code bsjoin.join} calls the join, a JSON object of {@code
   * bsjoin.metrics.observed.label_of}; empty if nobody reads its figures, null for a plain join.
   */
  final String label;

  /** What the query calls the table; its path or URL, without credentials. */
  final String table;

  final String path;
  final int version;

  /** The keys on the stream's side, then its columns in range conditions. */
  final ArrayList<String> on;

  Lookup(IndexJoin join, Search search, int kept) {
    kind = join.kind();
    tableIsRight = join.tableIsRight;
    finder = search.finder;
    this.kept = kept;
    compared = join.manifest.compared.length;
    extra = search.arguments.size();
    String ranges = search.answered.isEmpty() ? "" : ", ranges " + conjunction(search.answered);
    String demands = search.residual.isEmpty() ? "" : ", condition " + conjunction(search.residual);
    description =
        "[" + join.scan.table.label + " version " + join.manifest.version
            + (join.follows ? " on] " : "] ") + join.type + ", keys " + join.given + ranges + demands;
    indexBytes = Arrays.stream(join.manifest.segments).mapToLong(one -> one.file(-1).size()).sum();
    label = join.label;
    table = join.scan.table.label;
    path = join.scan.table.path;
    version = join.manifest.version;
    Set<String> names = new LinkedHashSet<>();
    join.given.forEach(key -> names.add(named(key)));
    for (Expression one : search.answered) {
      for (Attribute column : Scala.list(one.references().toSeq())) {
        if (join.stream.outputSet().contains(column)) {
          names.add(column.name());
        }
      }
    }
    on = new ArrayList<>(names);
  }

  private static String named(Expression key) {
    return key instanceof Attribute
        ? ((Attribute) key).name()
        : package$.MODULE$.toPrettySQL(key, false);
  }

  private static String conjunction(List<Expression> conditions) {
    return conditions.stream().map(Expression::toString).collect(Collectors.joining(" AND "));
  }

  /** What is found for a row whose key is null. */
  long ifNull() {
    return kind == JoinKind.NULL_AWARE_ANTI ? 0 : Finder.NONE; // a row that matches: it is dropped
  }

  /** Whether a row of the stream makes one row at most. */
  boolean isSingle() {
    return finder.isUnique() || kind.isFilter();
  }

  @Override
  public boolean equals(Object other) {
    if (!(other instanceof Lookup)) {
      return false;
    }
    Lookup that = (Lookup) other;
    return kind == that.kind
        && tableIsRight == that.tableIsRight
        && finder.equals(that.finder)
        && kept == that.kept
        && Objects.equals(label, that.label); // two joins have their figures each
  }

  @Override
  public int hashCode() {
    return kind.hashCode() + 31 * finder.hashCode();
  }
}
