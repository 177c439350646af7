package bsjoin.jvm;

import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.Map;
import org.apache.spark.sql.SparkSession;
import org.apache.spark.sql.catalyst.analysis.NoSuchTableException;
import org.apache.spark.sql.connector.catalog.Identifier;
import org.apache.spark.sql.connector.catalog.TableCatalog;
import org.apache.spark.sql.connector.catalog.TableChange;
import org.apache.spark.sql.connector.expressions.Transform;
import org.apache.spark.sql.types.StructType;
import scala.jdk.javaapi.CollectionConverters;

/**
 * The stored tables as tables of the catalog {@code bsjoin}, to read: {@code bsjoin.customers} is at
 * the path that the session's setting {@code spark.bsjoin.table.customers} gives, and a path itself
 * is a name, too, in back-quotes.
 */
abstract class StoredTables implements TableCatalog {
  private static final String SETTING = "spark.bsjoin.table.";

  @Override
  public org.apache.spark.sql.connector.catalog.Table loadTable(Identifier identifier)
      throws NoSuchTableException {
    return StoredTable.newest(path(identifier), identifier.name());
  }

  @Override
  public org.apache.spark.sql.connector.catalog.Table loadTable(
      Identifier identifier, String version) throws NoSuchTableException {
    return StoredTable.numbered(path(identifier), identifier.name(), version);
  }

  @Override
  public org.apache.spark.sql.connector.catalog.Table loadTable(
      Identifier identifier, long timestampUs) throws NoSuchTableException {
    return StoredTable.at(path(identifier), identifier.name(), timestampUs);
  }

  private static String path(Identifier identifier) throws NoSuchTableException {
    String name = identifier.name();
    if (identifier.namespace().length > 0) {
      throw new NoSuchTableException(identifier);
    }
    if (Address.is(name)) {
      return name;
    }
    // Not SQLConf.get(), which has the settings of a view while that is resolved.
    Map<String, String> settings = settings();
    String path = settings.get(SETTING + name);
    if (path != null) {
      return path;
    }
    if (!Boolean.parseBoolean(settings.get("spark.sql.caseSensitive"))) {
      for (Map.Entry<String, String> setting : settings.entrySet()) {
        if (setting.getKey().equalsIgnoreCase(SETTING + name)) {
          return setting.getValue();
        }
      }
    }
    throw new NoSuchTableException(identifier);
  }

  private static Map<String, String> settings() {
    return CollectionConverters.asJava(SparkSession.active().conf().getAll());
  }

  @Override
  public Identifier[] listTables(String[] namespace) {
    List<Identifier> found = new ArrayList<>();
    for (String setting : settings().keySet()) {
      if (setting.startsWith(SETTING) && namespace.length == 0) {
        found.add(Identifier.of(namespace, setting.substring(SETTING.length())));
      }
    }
    return found.toArray(new Identifier[0]);
  }

  @Override
  @SuppressWarnings("deprecation")
  public org.apache.spark.sql.connector.catalog.Table createTable(
      Identifier identifier,
      StructType schema,
      Transform[] partitions,
      Map<String, String> properties) {
    throw StoredTable.readOnly(identifier.name());
  }

  @Override
  public org.apache.spark.sql.connector.catalog.Table alterTable(
      Identifier identifier, TableChange... changes) {
    throw StoredTable.readOnly(identifier.name());
  }

  @Override
  public boolean dropTable(Identifier identifier) {
    throw StoredTable.readOnly(identifier.name());
  }

  @Override
  public void renameTable(Identifier before, Identifier after) {
    throw StoredTable.readOnly(before.name());
  }
}
