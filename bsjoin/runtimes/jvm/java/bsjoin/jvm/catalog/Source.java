package bsjoin.jvm.catalog;

import bsjoin.jvm.planner.Linkage;
import java.util.List;
import java.util.Map;
import org.apache.spark.sql.connector.catalog.TableProvider;
import org.apache.spark.sql.connector.expressions.Transform;
import org.apache.spark.sql.sources.DataSourceRegister;
import org.apache.spark.sql.types.StructType;
import org.apache.spark.sql.util.CaseInsensitiveStringMap;

/**
 * {@code spark.read.format("bsjoin").load(path)}; options: {@code versionAsOf}, a number, and {@code
 * maxStalenessUs}, see {@link bsjoin.jvm.storage.TableIdentity}.
 */
public final class Source implements TableProvider, DataSourceRegister {
  @Override
  public String shortName() {
    return "bsjoin";
  }

  @Override
  public StructType inferSchema(CaseInsensitiveStringMap options) {
    return new StructType(); // Spark hands it to getTable, which reads the table's own
  }

  @Override
  public StoredTable getTable(
      StructType schema, Transform[] partitioning, Map<String, String> properties) {
    CaseInsensitiveStringMap options = new CaseInsensitiveStringMap(properties);
    Linkage.start();
    String path = options.get("path");
    if (path == null) {
      throw new IllegalArgumentException(
          "spark.read.format(\"bsjoin\") needs the path of a table: load(path)");
    }
    if (options.containsKey("timestampAsOf")) {
      throw new IllegalArgumentException(
          "spark.read.format(\"bsjoin\") takes no timestampAsOf: read the table by its name in "
              + "the catalog, spark.read.option(\"timestampAsOf\", time).table(\"bsjoin.name\"), or "
              + "a version by its number, versionAsOf");
    }
    check(options);
    String version = options.get("versionAsOf");
    return version == null
        ? StoredTable.newest(
            path, path, StoredTable.staleness("maxStalenessUs", options.get("maxStalenessUs")))
        : StoredTable.numbered(path, path, version);
  }

  /** Refuse options that nothing follows, of a read by the path, or by the name. */
  static void check(CaseInsensitiveStringMap options) {
    List<String> known =
        !options.containsKey("path") ? List.of("versionAsOf", "timestampAsOf")
            : options.containsKey("versionAsOf") ? List.of("path", "versionAsOf")
            : List.of("path", "versionAsOf", "maxStalenessUs");
    for (String name : options.asCaseSensitiveMap().keySet()) {
      if (known.stream().noneMatch(name::equalsIgnoreCase)) {
        throw new IllegalArgumentException(
            "a table of bsjoin that is read so has no option '" + name + "': there are " + known);
      }
    }
  }
}
