package bsjoin.jvm;

import java.util.Map;
import org.apache.spark.sql.connector.catalog.TableProvider;
import org.apache.spark.sql.connector.expressions.Transform;
import org.apache.spark.sql.sources.DataSourceRegister;
import org.apache.spark.sql.types.StructType;
import org.apache.spark.sql.util.CaseInsensitiveStringMap;

/**
 * {@code spark.read.format("bsjoin").load(path)}; options: {@code versionAsOf}, a number, and {@code
 * maxStalenessUs}, see {@link Table#of}.
 */
public final class Source implements TableProvider, DataSourceRegister {
  @Override
  public String shortName() {
    return "bsjoin";
  }

  @Override
  public StructType inferSchema(CaseInsensitiveStringMap options) {
    return table(options).schema();
  }

  @Override
  public org.apache.spark.sql.connector.catalog.Table getTable(
      StructType schema, Transform[] partitioning, Map<String, String> properties) {
    return table(new CaseInsensitiveStringMap(properties));
  }

  private static StoredTable table(CaseInsensitiveStringMap options) {
    Planner.install();
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
    String version = options.get("versionAsOf");
    return version == null
        ? StoredTable.newest(path, path, options.getLong("maxStalenessUs", 0))
        : StoredTable.numbered(path, path, version);
  }
}
