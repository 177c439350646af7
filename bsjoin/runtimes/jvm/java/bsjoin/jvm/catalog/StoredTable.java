package bsjoin.jvm.catalog;

import bsjoin.jvm.planner.Planner;
import bsjoin.jvm.spark.SessionSettings;
import bsjoin.jvm.storage.Address;
import bsjoin.jvm.storage.Manifest;
import bsjoin.jvm.storage.Table;
import bsjoin.jvm.storage.TableError;
import bsjoin.jvm.storage.TableIdentity;
import com.fasterxml.jackson.databind.JsonNode;
import java.time.Instant;
import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.stream.Stream;
import org.apache.spark.sql.connector.catalog.TableCatalog;
import org.apache.spark.sql.connector.read.ScanBuilder;
import org.apache.spark.sql.types.StructField;
import org.apache.spark.sql.types.StructType;
import org.apache.spark.sql.util.CaseInsensitiveStringMap;

/**
 * A stored table as a table of Spark: the relation that queries are written against.
 *
 * <p>It has the columns of the version that was the newest when the query was analysed. Which version
 * is read is known when the query is planned, see {@link StoredScan}.
 */
public final class StoredTable extends ReadOnlyTable {
  public final String path; // a local path or a URL, without credentials
  public final String label; // what the query calls it
  final Manifest analyzed; // the version that has given the columns; null where none has
  public final boolean pinned; // to that version
  public final Table table;
  private final StructType schema;

  private StoredTable(String label, Table table, Manifest analyzed, boolean pinned) {
    this.label = label;
    this.table = table;
    this.analyzed = analyzed;
    this.pinned = pinned;
    path = table.identity.path();
    StructField[] fields = analyzed == null ? new StructField[0] : analyzed.columns.fields();
    schema =
        new StructType(
            Stream.of(fields)
                .map(one -> new StructField(one.name(), one.dataType(), true, one.metadata()))
                .toArray(StructField[]::new)); // a version that comes later may bring nulls
  }

  /**
   * The table at a path, whose version is chosen when a query is planned.
   *
   * @param path the path or URL as the query gives it
   * @param label what the query calls the table
   * @param maxStalenessUs see {@link TableIdentity}
   */
  static StoredTable newest(String path, String label, long maxStalenessUs) {
    String address = Address.of(path);
    List<String> python = address.contains("://") ? SessionSettings.python() : List.of();
    Manifest manifest = Table.newest(address, python);
    Table table =
        Table.of(
            new TableIdentity(
                address, manifest.version, manifest.createdAtUs, maxStalenessUs, python));
    table.know(manifest);
    return new StoredTable(label.equals(path) ? address : label, table, manifest, false);
  }

  /**
   * How old rows may be, in microseconds; 0 for any age.
   *
   * @param setting what says so, for the error
   * @param value as it was given; null for nothing
   */
  static long staleness(String setting, String value) {
    try {
      long found = value == null ? 0 : Long.parseLong(value.strip());
      if (found >= 0) {
        return found;
      }
    } catch (NumberFormatException e) {
      // an error below
    }
    throw TableError.of(
        "ArgumentError",
        setting + "='" + value + "' is not how many microseconds old rows may be: give a whole "
            + "number such as 3600000000, for an hour, or 0 for rows of any age");
  }

  static StoredTable numbered(String path, String label, String number) {
    StoredTable newest = newest(path, label, 0);
    if (!number.matches("[0-9]{1,9}")) {
      throw TableError.of(
          "ArgumentError",
          "the version '" + number + "' of the table in '" + newest.path
              + "' is not a number: versions are 1, 2, 3, …");
    }
    return newest.pinnedTo(newest.table.manifest(Integer.parseInt(number)));
  }

  static StoredTable at(String path, String label, long timestampUs) {
    StoredTable newest = newest(path, label, 0);
    return newest.pinnedTo(newest.table.manifestAt(timestampUs, false));
  }

  /**
   * A table as it was when a plan was made, to be planned for the first time or again.
   *
   * @param spec the {@code path}, {@code newest}, {@code epoch}, {@code staleness} and {@code python}
   *     of its identity, and the {@code version} that the plan is bound to; 0 for none
   */
  public static StoredTable planned(JsonNode spec) {
    List<String> python = new ArrayList<>();
    spec.path("python").forEach(command -> python.add(command.asText()));
    String path = spec.path("path").asText();
    long epoch = spec.path("epoch").asLong();
    Table table =
        Table.of(
            new TableIdentity(
                path, spec.path("newest").asInt(), epoch, spec.path("staleness").asLong(0), python));
    int version = spec.path("version").asInt();
    Manifest bound = version == 0 ? null : table.manifest(version);
    if (bound != null && bound.createdAtUs != epoch) {
      throw TableError.builtAgain(version, path, "planned", "Make the DataFrame anew");
    }
    return new StoredTable(path, table, bound, version != 0);
  }

  private StoredTable pinnedTo(Manifest manifest) {
    return new StoredTable(label, table, manifest, true);
  }

  /**
   * The version for a query that is planned.
   *
   * @param timeUs the micro-batch's timestamp, or now; microseconds since the epoch
   * @param isBatch whether it is no micro-batch, see {@link Table#manifestAt}
   */
  Manifest manifestAt(long timeUs, boolean isBatch) {
    return pinned ? table.current(analyzed) : table.manifestAt(timeUs, isBatch);
  }

  @Override
  public String name() {
    return label;
  }

  @Override
  @SuppressWarnings("deprecation")
  public StructType schema() {
    return schema;
  }

  /** What {@code DESCRIBE EXTENDED} shows. */
  @Override
  public Map<String, String> properties() {
    Map<String, String> found = new LinkedHashMap<>();
    found.put(TableCatalog.PROP_PROVIDER, "bsjoin");
    found.put(TableCatalog.PROP_LOCATION, path);
    found.put(TableCatalog.PROP_EXTERNAL, "true");
    found.put("version", String.valueOf(analyzed.version));
    found.put("created", String.valueOf(Instant.ofEpochSecond(analyzed.createdAtUs / 1_000_000)));
    found.put("keys", String.join(", ", analyzed.keyNames));
    found.put("unique", String.valueOf(analyzed.unique));
    found.put("rows", String.valueOf(analyzed.rows()));
    if (!analyzed.condition.isEmpty()) {
      found.put("condition", analyzed.condition);
    }
    if (!analyzed.latestBy.isEmpty()) {
      found.put("latest_by", analyzed.latestBy);
      found.put("keep", String.valueOf(analyzed.keep));
    }
    return found;
  }

  @Override
  public ScanBuilder newScanBuilder(CaseInsensitiveStringMap options) {
    Planner.install(); // here, as a view may come from another session than the one that plans
    Source.check(options);
    return new StoredScan.Builder(this, schema);
  }

  @Override
  public boolean equals(Object other) {
    return other instanceof StoredTable that
        && label.equals(that.label)
        && pinned == that.pinned
        && analyzed.version == that.analyzed.version
        && table == that.table;
  }

  @Override
  public int hashCode() {
    return table.identity.hashCode();
  }
}
