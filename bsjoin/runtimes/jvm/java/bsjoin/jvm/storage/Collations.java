package bsjoin.jvm.storage;

import java.util.regex.Matcher;
import java.util.regex.Pattern;
import org.apache.spark.SparkThrowable;
import org.apache.spark.sql.catalyst.expressions.CollationKey;
import org.apache.spark.sql.catalyst.expressions.Expression;
import org.apache.spark.sql.catalyst.util.CollationFactory;
import org.apache.spark.sql.types.DataType;
import org.apache.spark.sql.types.DataTypes;
import org.apache.spark.sql.types.NullType;
import org.apache.spark.sql.types.StringType;
import org.apache.spark.sql.types.StringType$;

/**
 * Keys that are texts with a collation. Spark joins them by bytes that are equal exactly where the
 * texts are, their collation keys; these are what a table has hashed and stored.
 *
 * <p>Another version of a collation's rules makes other bytes. So a manifest has the version of the
 * rules, and a table of other ones is read as a table without an index.
 */
public final class Collations {
  private static final Pattern NAMED = Pattern.compile("string collate (\\w{1,128}) (\\S+)");

  private Collations() {}

  /** Whether the values of a type are texts with a collation. */
  static boolean has(DataType type) {
    return type instanceof StringType text
        && text.collationId() != CollationFactory.UTF8_BINARY_COLLATION_ID;
  }

  /** The version of the rules by which this Spark compares texts of a type. */
  public static String version(StringType type) {
    String own = CollationFactory.fetchCollation(type.collationId()).version;
    // The letters of UTF8_LCASE are those of ICU, whose version this is.
    return own + "/" + CollationFactory.fetchCollation(CollationFactory.UNICODE_COLLATION_ID).version;
  }

  /** Whether an error of Spark says that it does not have a collation; its message names that. */
  static boolean isUnknown(Exception error) {
    return error instanceof SparkThrowable one
        && String.valueOf(one.getCondition()).startsWith("COLLATION_INVALID_");
  }

  /** The type of a key by its name in a manifest; void, which equals no key, for other rules. */
  static DataType type(String name) {
    Matcher named = NAMED.matcher(name);
    if (!named.matches()) {
      return DataType.fromJson("\"" + name + "\"");
    }
    StringType type = StringType$.MODULE$.apply(named.group(1));
    return named.group(2).equals(version(type)) ? type : DataTypes.NullType;
  }

  /** The type in which keys are stored for comparison. */
  static DataType stored(DataType type) {
    return has(type) || type instanceof NullType ? DataTypes.BinaryType : type;
  }

  /** The column whose collation key an expression is; another expression as it is. */
  static Expression column(Expression stored) {
    return stored instanceof CollationKey ? stored.children().head() : stored;
  }

  /** What stored collation keys are searched for; null if the texts have another collation. */
  static Expression searched(Expression given, DataType type) {
    boolean isSame = column(given).dataType().equals(type);
    return !isSame ? null : given instanceof CollationKey ? given : new CollationKey(given);
  }
}
