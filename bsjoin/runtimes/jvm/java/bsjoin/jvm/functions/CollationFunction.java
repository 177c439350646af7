package bsjoin.jvm.functions;

import bsjoin.jvm.spark.Function;
import bsjoin.jvm.storage.Collations;
import com.fasterxml.jackson.databind.node.MissingNode;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.catalyst.util.CollationFactory;
import org.apache.spark.sql.connector.catalog.functions.BoundFunction;
import org.apache.spark.sql.types.DataTypes;
import org.apache.spark.sql.types.StringType;
import org.apache.spark.sql.types.StructType;
import org.apache.spark.unsafe.types.UTF8String;

/**
 * {@code bsjoin.collation_key(text)}: bytes that are equal exactly where the texts are by their
 * collation; and {@code bsjoin.collation_version(text)}: the version of its rules, as bytes, see
 * {@link Collations}.
 */
public final class CollationFunction extends Function<byte[]> {
  private static final String KEY = "collation_key";
  private static final String VERSION = "collation_version";

  private final String function;
  private final StringType type;

  private CollationFunction(String function, StringType type) {
    super(function, MissingNode.getInstance(), DataTypes.BinaryType, type);
    this.function = function;
    this.type = type;
  }

  /** The function of a name; null for any other name. */
  public static CollationFunction of(String name) {
    return name.equals(KEY) || name.equals(VERSION)
        ? new CollationFunction(name, (StringType) DataTypes.StringType)
        : null;
  }

  @Override
  public String name() {
    return "bsjoin." + function;
  }

  @Override
  public BoundFunction bind(StructType given) {
    super.bind(given);
    return given.fields()[0].dataType() instanceof StringType text
        ? new CollationFunction(function, text)
        : this;
  }

  @Override
  public boolean isResultNullable() {
    return true;
  }

  public byte[] invoke(UTF8String text) {
    if (text == null) {
      return null;
    }
    return function.equals(KEY)
        ? CollationFactory.getCollationKeyBytes(text, type.collationId())
        : UTF8String.fromString(Collations.version(type)).getBytes();
  }

  @Override
  public byte[] produceResult(InternalRow arguments) {
    return invoke(arguments.isNullAt(0) ? null : arguments.getUTF8String(0));
  }
}
