package bsjoin.jvm.catalog;

import bsjoin.jvm.spark.Scala;
import bsjoin.jvm.storage.KeyTypes;
import bsjoin.jvm.storage.Manifest;
import java.util.ArrayList;
import java.util.List;
import java.util.Set;
import java.util.stream.Collectors;
import java.util.stream.Stream;
import org.apache.spark.sql.catalyst.expressions.Literal;
import org.apache.spark.sql.catalyst.expressions.XxHash64;
import org.apache.spark.sql.connector.expressions.Expression;
import org.apache.spark.sql.connector.expressions.NamedReference;
import org.apache.spark.sql.connector.expressions.filter.Predicate;
import org.apache.spark.sql.types.DataType;
import org.apache.spark.sql.types.DataTypes;

/**
 * Which segments can have rows that a filter lets through: rows are in the segments by the hash of
 * their key, so a filter that gives all key columns a few values each needs the segments of their
 * hashes only.
 *
 * <p>Other filters skip nothing. The rows of a segment are a sample of the whole table, so that the
 * least and the greatest value of any column, of an integer key too, are about the same in all.
 */
public final class KeyFilter {
  private static final int MOST = 1000; // keys

  private KeyFilter() {}

  /**
   * The hashes of all keys that a filter lets through; null if they are not known.
   *
   * @param conjuncts that all hold for such a row
   */
  static Set<Long> hashes(Manifest manifest, List<Predicate> conjuncts) {
    List<List<Literal>> keys = List.of(List.of());
    for (int i = 0; i < manifest.keyNames.size(); i++) {
      List<Literal> values = null;
      for (Predicate conjunct : conjuncts) {
        List<Literal> found =
            values(conjunct, manifest.keyNames.get(i), manifest.keyTypes.get(i));
        boolean isBetter = found != null && (values == null || found.size() < values.size());
        values = isBetter ? found : values;
      }
      if (values == null || values.size() * (long) keys.size() > MOST) {
        return null;
      }
      List<Literal> all = values;
      keys =
          keys.stream()
              .flatMap(key -> all.stream().map(value -> longer(key, value)))
              .toList();
    }
    if (manifest.hasNullKeys()) { // none of these is null
      keys = keys.stream().map(key -> longer(key, new Literal(0L, DataTypes.LongType))).toList();
    }
    return manifest.keyNames.isEmpty()
        ? null
        : keys.stream()
            .map(key -> (Long) new XxHash64(Scala.seq(key)).eval(null))
            .collect(Collectors.toSet());
  }

  private static List<Literal> longer(List<Literal> key, Literal value) {
    return Stream.concat(key.stream(), Stream.of(value)).toList();
  }

  /** The values of a key column that a predicate lets through; null if they are not known. */
  private static List<Literal> values(Predicate predicate, String column, DataType type) {
    Expression[] parts = predicate.children();
    boolean isOfColumn =
        parts.length > 1 && parts[0] instanceof NamedReference named
            && List.of(named.fieldNames()).equals(List.of(column));
    if (!isOfColumn || !List.of("=", "<=>", "IN").contains(predicate.name())) {
      return null;
    }
    List<Literal> found = new ArrayList<>();
    for (int i = 1; i < parts.length; i++) {
      if (!(parts[i] instanceof org.apache.spark.sql.connector.expressions.Literal<?> literal)) {
        return null;
      }
      if (literal.value() != null) {
        if (!literal.dataType().equals(type)) {
          return null;
        }
        var searched = KeyTypes.searched(new Literal(literal.value(), type), type);
        found.add(new Literal(searched.eval(null), searched.dataType()));
      } else if (predicate.name().equals("<=>")) {
        return null;
      }
    }
    return found;
  }
}
