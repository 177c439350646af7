package bsjoin.jvm.lookup;

import java.io.Serializable;
import java.util.ArrayList;
import java.util.Objects;

/**
 * What a {@link LookupExec} does, beside its expressions.
 *
 * @param limit how many of the found rows that fulfil the condition are taken, first to last
 * @param kept columns of the input that are those of the stream
 * @param compared arguments that are keys to compare
 * @param extra arguments of the finder beside the search value
 * @param label what {@code bsjoin.join} calls the join, a JSON object of {@code
 *     bsjoin.metrics.observing.label_of}; empty if nobody reads its figures, null for a plain join
 * @param collector makes one array of all rows that are found; null if each is a result
 * @param table what the query calls the table; its path or URL, without credentials
 * @param on the keys on the stream's side, then its columns in range conditions
 */
public record Lookup(
    JoinKind kind,
    boolean tableIsRight,
    Finder finder,
    int limit,
    int kept,
    int compared,
    int extra,
    String description,
    long indexBytes,
    String label,
    Collector collector,
    String table,
    String path,
    int version,
    ArrayList<String> on)
    implements Serializable {

  /** Whether a row of the stream makes one row at most. */
  boolean isSingle() {
    return finder.isUnique() || limit == 1 || kind.isFilter() || collector != null;
  }

  @Override
  public boolean equals(Object other) {
    return other instanceof Lookup that
        && kind == that.kind
        && tableIsRight == that.tableIsRight
        && finder.equals(that.finder)
        && limit == that.limit
        && kept == that.kept
        && Objects.equals(collector, that.collector)
        && Objects.equals(label, that.label); // two joins have their figures each
  }

  @Override
  public int hashCode() {
    return kind.hashCode() + 31 * finder.hashCode();
  }
}
