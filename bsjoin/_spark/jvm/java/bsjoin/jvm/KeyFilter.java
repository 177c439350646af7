package bsjoin.jvm;

import java.util.ArrayList;
import java.util.Arrays;
import java.util.Collections;
import java.util.HashMap;
import java.util.LinkedHashSet;
import java.util.List;
import java.util.Map;
import java.util.Set;
import org.apache.spark.sql.catalyst.expressions.XXH64;
import org.apache.spark.sql.connector.expressions.Expression;
import org.apache.spark.sql.connector.expressions.Literal;
import org.apache.spark.sql.connector.expressions.NamedReference;
import org.apache.spark.sql.connector.expressions.filter.Predicate;
import org.apache.spark.sql.types.DataType;
import org.apache.spark.sql.types.DateType;
import org.apache.spark.sql.types.Decimal;
import org.apache.spark.sql.types.DoubleType;
import org.apache.spark.sql.types.FloatType;
import org.apache.spark.unsafe.Platform;
import org.apache.spark.unsafe.types.UTF8String;

/**
 * Which segments can have rows that a filter lets through: rows are in the segments by the hash of
 * their key, so a filter that gives all key columns a few values each needs the segments of their
 * hashes only.
 *
 * <p>Other filters skip nothing. The rows of a segment are a sample of the whole table, so that the
 * least and the greatest value of any column, of an integer key too, are about the same in all.
 */
final class KeyFilter {
  private static final int MOST = 1000; // keys

  private KeyFilter() {}

  /**
   * The hashes of all keys that a filter lets through; null if they are not known.
   *
   * @param conjuncts that all hold for such a row
   */
  static Set<Long> hashes(Manifest manifest, List<Predicate> conjuncts) {
    Map<String, List<Object>> values = new HashMap<>();
    Map<String, DataType> types = new HashMap<>();
    for (int i = 0; i < manifest.keyNames.size(); i++) {
      types.put(manifest.keyNames.get(i), manifest.keyTypes.get(i));
    }
    for (Predicate conjunct : conjuncts) {
      Expression[] parts = conjunct.children();
      String column = parts.length > 1 ? column(parts[0]) : null;
      List<Object> found = column == null ? null : values(conjunct, types.get(column));
      if (found != null && (!values.containsKey(column) || found.size() < values.get(column).size())) {
        values.put(column, found);
      }
    }
    Set<Long> hashes = types.isEmpty() ? null : Collections.singleton(42L); // Spark's seed
    for (int i = 0; i < manifest.keyNames.size() && hashes != null; i++) {
      List<Object> found = values.get(manifest.keyNames.get(i));
      hashes =
          found == null || found.size() * (long) hashes.size() > MOST
              ? null
              : hashed(hashes, found, manifest.keyTypes.get(i));
    }
    return hashes;
  }

  private static String column(Expression expression) {
    if (!(expression instanceof NamedReference)) {
      return null;
    }
    String[] names = ((NamedReference) expression).fieldNames();
    return names.length == 1 ? names[0] : null;
  }

  /** The values of a key column that a predicate lets through; null if they are not known. */
  private static List<Object> values(Predicate predicate, DataType type) {
    String name = predicate.name();
    if (!name.equals("=") && !name.equals("<=>") && !name.equals("IN")) {
      return null;
    }
    List<Object> found = new ArrayList<>();
    Expression[] parts = predicate.children();
    for (Expression part : Arrays.asList(parts).subList(1, parts.length)) {
      Literal<?> literal = part instanceof Literal ? (Literal<?>) part : null;
      boolean isNull = literal != null && literal.value() == null;
      if (literal == null || !isNull && !literal.dataType().equals(type)) {
        return null;
      }
      if (!isNull) {
        found.add(literal.value());
      } else if (name.equals("<=>")) {
        return null;
      }
    }
    return found;
  }

  private static Set<Long> hashed(Set<Long> seeds, List<Object> values, DataType type) {
    Set<Long> found = new LinkedHashSet<>();
    for (long seed : seeds) {
      for (Object value : values) {
        found.add(hash(value, type, seed));
      }
    }
    return found;
  }

  /** Spark's {@code xxhash64} of a value in its canonical form: {@code bsjoin/_spark/keys.py}. */
  private static long hash(Object value, DataType type, long seed) {
    if (value instanceof Boolean) {
      return XXH64.hashInt((Boolean) value ? 1 : 0, seed);
    } else if (type instanceof DateType) {
      return XXH64.hashInt((Integer) value, seed);
    } else if (type instanceof FloatType || type instanceof DoubleType) {
      double number = ((Number) value).doubleValue() + 0.0; // -0.0 is 0.0
      return XXH64.hashLong(Double.doubleToLongBits(number), seed);
    } else if (value instanceof Number) {
      return XXH64.hashLong(((Number) value).longValue(), seed);
    } else if (value instanceof Decimal) {
      Decimal decimal = (Decimal) value;
      return decimal.precision() <= Decimal.MAX_LONG_DIGITS()
          ? XXH64.hashLong(decimal.toUnscaledLong(), seed)
          : hash(decimal.toJavaBigDecimal().unscaledValue().toByteArray(), seed);
    } else if (value instanceof UTF8String) {
      UTF8String text = (UTF8String) value;
      return XXH64.hashUnsafeBytes(
          text.getBaseObject(), text.getBaseOffset(), text.numBytes(), seed);
    }
    return hash((byte[]) value, seed);
  }

  private static long hash(byte[] bytes, long seed) {
    return XXH64.hashUnsafeBytes(bytes, Platform.BYTE_ARRAY_OFFSET, bytes.length, seed);
  }
}
