package bsjoin.jvm.catalog;

import bsjoin.jvm.spark.PlanTime;
import bsjoin.jvm.storage.ColumnType;
import bsjoin.jvm.storage.Expected;
import bsjoin.jvm.storage.Manifest;
import bsjoin.jvm.storage.StoredVersion;
import bsjoin.jvm.storage.TableError;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.OptionalLong;
import java.util.Set;
import java.util.stream.Collectors;
import java.util.stream.Stream;
import org.apache.spark.SparkContext;
import org.apache.spark.sql.connector.expressions.filter.Predicate;
import org.apache.spark.sql.connector.read.Batch;
import org.apache.spark.sql.connector.read.InputPartition;
import org.apache.spark.sql.connector.read.PartitionReaderFactory;
import org.apache.spark.sql.connector.read.Scan;
import org.apache.spark.sql.connector.read.ScanBuilder;
import org.apache.spark.sql.connector.read.Statistics;
import org.apache.spark.sql.connector.read.SupportsPushDownRequiredColumns;
import org.apache.spark.sql.connector.read.SupportsPushDownV2Filters;
import org.apache.spark.sql.connector.read.SupportsReportStatistics;
import org.apache.spark.sql.types.DataType;
import org.apache.spark.sql.types.StructField;
import org.apache.spark.sql.types.StructType;

/**
 * The rows of a stored table in one version: the one that is active at the timestamp of the
 * micro-batch that is planned, or the newest one.
 */
public final class StoredScan implements Scan, Batch, SupportsReportStatistics {
  private static final long LEAST = 1 << 16; // rows of a partition
  private static final long MOST = 1 << 20;

  public final StoredTable table;
  public final Manifest manifest;
  public final boolean live; // planned for real-time mode, where the version goes on
  public final StructType columns;
  private final List<Manifest.Rows> parts; // that are read
  private final int segments; // of them

  /** All rows, for a join that checks the columns by itself. */
  public static StoredScan unchecked(StoredTable table, StructType columns) {
    return new StoredScan(table, columns, List.of());
  }

  private static StoredScan of(StoredTable table, StructType columns, List<Predicate> filters) {
    StoredScan found = new StoredScan(table, columns, filters);
    // Columns may be missing in a version before the one that the query was analysed with.
    boolean isOlder = table.table.identity.isOlder(found.manifest);
    for (StructField field : columns.fields()) {
      String reason = Expected.reason(found.manifest, field, isOlder);
      if (!reason.isEmpty()) {
        throw TableError.of(
            "TableMismatchError",
            "version " + found.manifest.version + " of the table in '" + table.path + "' " + reason
                + ": plan it again");
      }
    }
    return found;
  }

  /** What is expected of later versions of the table, which take the place of this one. */
  public Expected expected() {
    return new Expected(table.table.identity, manifest.keys, manifest.ranged, columns);
  }

  private StoredScan(StoredTable table, StructType columns, List<Predicate> filters) {
    this.table = table;
    this.columns = columns;
    PlanTime time = PlanTime.current();
    live = time.goesOn();
    manifest = table.manifestAt(time.us(), time.isBatch());
    Set<Long> hashes = KeyFilter.hashes(manifest, filters);
    parts = segments(hashes);
    segments = parts.size();
    // A row outside of the index has no key, or in a table for range joins perhaps no point.
    boolean hasKeys = hashes != null && manifest.rangeColumns == 0;
    if (!hasKeys && manifest.isWhole()) {
      parts.addAll(Arrays.asList(manifest.unindexed));
    }
  }

  /** What Spark tells before it plans; all filters are left to it, see {@link KeyFilter}. */
  static final class Builder
      implements ScanBuilder, SupportsPushDownRequiredColumns, SupportsPushDownV2Filters {
    private final StoredTable table;
    private StructType columns;
    private List<Predicate> filters = List.of();

    Builder(StoredTable table, StructType columns) {
      this.table = table;
      this.columns = columns;
    }

    @Override
    public void pruneColumns(StructType required) {
      // Whole ones: of what is inside of one nothing is read apart.
      columns =
          new StructType(
              Arrays.stream(required.fieldNames())
                  .map(name -> table.schema().apply(name))
                  .toArray(StructField[]::new));
    }

    @Override
    public Scan build() {
      return of(table, columns, filters);
    }

    @Override
    public Predicate[] pushPredicates(Predicate[] predicates) {
      filters = Arrays.asList(predicates);
      return predicates;
    }

    @Override
    public Predicate[] pushedPredicates() {
      return new Predicate[0];
    }
  }

  /** The segments that can have keys with these hashes; all for null. Layers may have any. */
  private List<Manifest.Rows> segments(Set<Long> hashes) {
    List<Manifest.Rows> all = Arrays.asList(manifest.shown());
    if (hashes == null) {
      return new ArrayList<>(all);
    }
    int bases = manifest.segments.length;
    Stream<Manifest.Rows> found =
        hashes.stream().map(manifest::segmentOf).filter(number -> number >= 0).distinct().sorted()
            .map(all::get);
    return Stream.concat(found, all.subList(bases, all.size()).stream())
        .collect(Collectors.toCollection(ArrayList::new));
  }

  /** Refuse columns that only Python reads; a plan may have them and be explained. */
  private void checkRead() {
    for (StructField field : columns.fields()) {
      if (ColumnType.of(field.dataType()) == null) {
        throw TableError.of(
            "ColumnError",
            "the column '" + field.name() + "' of the table in '" + table.path + "' is "
                + field.dataType().simpleString() + ", which is not read in the JVM: select other "
                + "columns, or bring it by bsjoin.join");
      }
    }
  }

  @Override
  public StructType readSchema() {
    return columns;
  }

  @Override
  public String description() {
    return "bsjoin " + table.path + " version " + manifest.version + " "
        + Arrays.toString(columns.fieldNames())
        + (segments == manifest.shown().length
            ? ""
            : ", " + segments + " of " + manifest.shown().length + " segments");
  }

  @Override
  public Statistics estimateStatistics() {
    long rows = 0;
    long bytes = 0;
    for (Manifest.Rows part : parts) {
      rows += part.rows;
      for (StructField field : columns.fields()) {
        int place = manifest.place(field.name());
        bytes += place < 0 ? 0 : part.file(place).size();
      }
    }
    return new Size(
        OptionalLong.of(Math.max(1, bytes)), OptionalLong.of(Math.min(rows, manifest.rows())));
  }

  private record Size(OptionalLong sizeInBytes, OptionalLong numRows) implements Statistics {}

  @Override
  public Batch toBatch() {
    return this;
  }

  @Override
  public InputPartition[] planInputPartitions() {
    checkRead();
    checkWhole();
    int cores = SparkContext.getOrCreate().defaultParallelism();
    long most = Math.max(LEAST, Math.min(MOST, manifest.rows() / cores + 1));
    List<InputPartition> found = new ArrayList<>();
    List<Manifest.Rows> shown = Arrays.asList(manifest.shown());
    for (Manifest.Rows segment : parts) {
      StoredRows.ColumnFile[] files = files(segment);
      int number = shown.indexOf(segment);
      long count = (segment.rows + most - 1) / most;
      int from = 0;
      for (long i = 1; i <= count; i++) {
        int to = i == count ? segment.rows : (int) (segment.rows * i / count) & -8;
        found.add(new StoredRows.Part(files, segment.rows, from, to, number));
        from = to;
      }
    }
    return found.toArray(new InputPartition[0]);
  }

  /** Refuse to scan a version that lacks rows; joins by the index do not need those. */
  private void checkWhole() {
    if (!manifest.isWhole()) {
      throw TableError.of(
          "StoreError",
          "version " + manifest.version + " of the table in '" + table.path + "' was stored for "
              + "look-ups only, as by an earlier version of bsjoin: rows whose key is null were "
              + "left out, and this query reads all rows. Build it again: "
              + "bsjoin.BatchTable.build(df, on=..., path=...)");
    }
  }

  private StoredRows.ColumnFile[] files(Manifest.Rows segment) {
    return Arrays.stream(columns.fieldNames())
        .map(manifest::place)
        .map(
            place ->
                place < 0
                    ? null // it was added later
                    : new StoredRows.ColumnFile(segment.file(place), manifest.isNullable(place)))
        .toArray(StoredRows.ColumnFile[]::new);
  }

  @Override
  public PartitionReaderFactory createReaderFactory() {
    DataType[] types =
        Arrays.stream(columns.fields()).map(StructField::dataType).toArray(DataType[]::new);
    return new StoredRows(
        new StoredVersion(table.table.identity, manifest), manifest.hasLayers(), types);
  }

  @Override
  public boolean equals(Object other) {
    return other instanceof StoredScan that
        && that.table.equals(table)
        && that.manifest.version == manifest.version
        && that.columns.equals(columns)
        && that.parts.equals(parts);
  }

  @Override
  public int hashCode() {
    return table.hashCode() + 31 * manifest.version;
  }
}
