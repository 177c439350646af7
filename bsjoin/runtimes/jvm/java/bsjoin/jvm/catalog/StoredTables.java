package bsjoin.jvm.catalog;

import static java.util.stream.Collectors.joining;

import bsjoin.jvm.planner.Linkage;
import bsjoin.jvm.spark.Scala;
import bsjoin.jvm.spark.SessionSettings;
import bsjoin.jvm.storage.Address;
import bsjoin.jvm.storage.TableError;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.Map;
import java.util.function.Function;
import org.apache.spark.sql.AnalysisException;
import org.apache.spark.sql.connector.catalog.Identifier;
import org.apache.spark.sql.connector.catalog.TableCatalog;
import org.apache.spark.sql.connector.catalog.TableChange;
import org.apache.spark.sql.connector.expressions.Transform;
import org.apache.spark.sql.types.StructType;
import org.apache.spark.unsafe.Platform;
import scala.Option;

/**
 * The stored tables as tables of the catalog {@code bsjoin}, to read: {@code bsjoin.customers} is at
 * the path that the session's setting {@code spark.bsjoin.table.customers} gives, and a path itself
 * is a name, too, in back-quotes.
 */
public abstract class StoredTables implements TableCatalog {
  private static final String SETTING = "spark.bsjoin.table.";
  private static final String STALENESS = "spark.bsjoin.maxStalenessUs.";
  private static final String[] NAMESPACE = {"default"}; // after USE, and in lists of tables

  @Override
  public String[] defaultNamespace() {
    return NAMESPACE.clone();
  }

  private static boolean isDefault(String[] namespace) {
    return namespace.length == 0 || Arrays.equals(namespace, NAMESPACE);
  }

  @Override
  public StoredTable loadTable(Identifier identifier) {
    Map<String, String> settings = SessionSettings.all();
    return loaded(
        identifier, settings,
        path -> StoredTable.newest(path, identifier.name(), staleness(settings, identifier.name())));
  }

  @Override
  public StoredTable loadTable(Identifier identifier, String version) {
    return loaded(
        identifier, SessionSettings.all(),
        path -> StoredTable.numbered(path, identifier.name(), version));
  }

  @Override
  public StoredTable loadTable(Identifier identifier, long timestampUs) {
    return loaded(
        identifier, SessionSettings.all(),
        path -> StoredTable.at(path, identifier.name(), timestampUs));
  }

  @Override
  public boolean tableExists(Identifier identifier) {
    try {
      return loadTable(identifier) != null;
    } catch (Exception e) {
      if (e instanceof AnalysisException) { // that there is none, which loadTable does not declare
        return false;
      }
      throw e;
    }
  }

  private static StoredTable loaded(
      Identifier identifier, Map<String, String> settings, Function<String, StoredTable> load) {
    Linkage.start();
    String path = path(identifier, settings);
    IllegalStateException cause = null;
    try {
      if (path != null) {
        return load.apply(path);
      }
    } catch (IllegalStateException e) {
      if (!e.getMessage().startsWith(TableError.NO_TABLE)) {
        throw e;
      }
      cause = e;
    }
    // After a NoSuchTableException Spark would take the name for a file's, in the format bsjoin.
    Platform.throwException(
        new AnalysisException(
            "TABLE_OR_VIEW_NOT_FOUND", named(identifier, cause), Option.apply(cause)));
    return null; // never: a checked exception, which loadTable does not declare
  }

  private static scala.collection.immutable.Map<String, String> named(
      Identifier identifier, IllegalStateException cause) {
    List<String> parts = new ArrayList<>(Arrays.asList(identifier.namespace()));
    parts.add(0, "bsjoin");
    parts.add(identifier.name());
    String name = parts.stream().map(p -> "`" + p.replace("`", "``") + "`").collect(joining("."));
    String reason = cause == null ? "" : cause.getMessage().replace(TableError.NO_TABLE, " (") + ")";
    return Scala.map(
        Map.of(
            "relationName", name + reason, // without it nobody would see the cause
            "searchPath", "`bsjoin`")); // of later versions of Spark
  }

  /** The path that a table's name is or stands for; null for another name. */
  private static String path(Identifier identifier, Map<String, String> settings) {
    String name = identifier.name();
    if (!isDefault(identifier.namespace())) {
      return null;
    }
    if (Address.is(name)) {
      return name;
    }
    return settings.get(SETTING + spelling(settings, name));
  }

  /** How old the rows of a table that is there may be, in microseconds; 0 for any age. */
  private static long staleness(Map<String, String> settings, String name) {
    String setting = STALENESS + (Address.is(name) ? name : spelling(settings, name));
    return StoredTable.staleness(setting, settings.get(setting));
  }

  /** A table's name as it was given to the session; another table may differ in case alone. */
  private static String spelling(Map<String, String> settings, String name) {
    String found = name;
    if (!settings.containsKey(SETTING + name)
        && !Boolean.parseBoolean(settings.get("spark.sql.caseSensitive"))) {
      for (String setting : settings.keySet()) {
        if (setting.equalsIgnoreCase(SETTING + name) && setting.startsWith(SETTING)) {
          found = setting.substring(SETTING.length());
        }
      }
    }
    return found;
  }

  @Override
  public Identifier[] listTables(String[] namespace) {
    return SessionSettings.all().keySet().stream()
        .filter(setting -> setting.startsWith(SETTING) && isDefault(namespace))
        .map(setting -> Identifier.of(NAMESPACE, setting.substring(SETTING.length())))
        .toArray(Identifier[]::new);
  }

  @Override
  @SuppressWarnings("deprecation")
  public StoredTable createTable(
      Identifier identifier, StructType schema, Transform[] partitions,
      Map<String, String> properties) {
    throw ReadOnlyTable.refusal(identifier.name());
  }

  @Override
  public StoredTable alterTable(Identifier identifier, TableChange... changes) {
    throw ReadOnlyTable.refusal(identifier.name());
  }

  @Override
  public boolean dropTable(Identifier identifier) {
    throw ReadOnlyTable.refusal(identifier.name());
  }

  @Override
  public void renameTable(Identifier before, Identifier after) {
    throw ReadOnlyTable.refusal(before.name());
  }
}
