package bsjoin.jvm;

import java.util.ArrayList;
import java.util.Arrays;
import java.util.Collections;
import java.util.List;
import java.util.OptionalLong;
import java.util.Set;
import java.util.TreeSet;
import java.util.stream.Collectors;
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
final class StoredScan implements Scan, Batch, SupportsReportStatistics {
  private static final long LEAST = 1 << 16; // rows of a partition
  private static final long MOST = 1 << 20;

  final StoredTable table;
  final Manifest manifest;
  final boolean live; // planned for real-time mode, where the version goes on
  final StructType columns;
  private final List<Manifest.Rows> parts; // that are read
  private final int segments; // of them

  /** All rows, for a join that checks the columns by itself. */
  static StoredScan unchecked(StoredTable table, StructType columns) {
    return new StoredScan(table, columns, Collections.emptyList());
  }

  private static StoredScan of(StoredTable table, StructType columns, List<Predicate> filters) {
    StoredScan found = new StoredScan(table, columns, filters);
    for (StructField field : columns.fields()) {
      found.check(field);
    }
    return found;
  }

  private StoredScan(StoredTable table, StructType columns, List<Predicate> filters) {
    this.table = table;
    this.columns = columns;
    PlanTime time = PlanTime.current();
    live = time.goesOn;
    manifest = table.manifestAt(time.us);
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
    private List<Predicate> filters = Collections.emptyList();

    Builder(StoredTable table, StructType columns) {
      this.table = table;
      this.columns = columns;
    }

    @Override
    public void pruneColumns(StructType required) {
      columns = required;
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

  /** The segments that can have keys with these hashes; all for null. */
  private List<Manifest.Rows> segments(Set<Long> hashes) {
    List<Manifest.Rows> all = new ArrayList<>(Arrays.asList(manifest.segments));
    if (hashes == null) {
      return all;
    }
    Set<Integer> numbers = new TreeSet<>();
    hashes.forEach(hash -> numbers.add(manifest.segmentOf(hash)));
    numbers.remove(-1);
    return numbers.stream().map(all::get).collect(Collectors.toList());
  }

  /** Refuse a column that cannot be read as the query was analysed. */
  private void check(StructField field) {
    String name = field.name();
    int place = manifest.place(name);
    if (place < 0 ? isOlder() : manifest.storedType(place).equals(field.dataType())) {
      return;
    }
    throw TableError.of(
        "OtherKeysError",
        "version " + manifest.version + " of the table in '" + table.path + "' has "
            + (place < 0
                ? "no column '" + name + "', which this query selects"
                : "the column '" + name + "' as " + manifest.storedType(place).simpleString()
                    + ", and this query was planned for " + field.dataType().simpleString())
            + ": plan it again");
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

  /** Whether the query was analysed with a later version: its columns may be missing here. */
  private boolean isOlder() {
    return manifest.createdAtUs < table.analyzed.createdAtUs;
  }

  @Override
  public StructType readSchema() {
    return columns;
  }

  @Override
  public String description() {
    return "bsjoin " + table.path + " version " + manifest.version + " "
        + Arrays.toString(columns.fieldNames())
        + (segments == manifest.segments.length
            ? ""
            : ", " + segments + " of " + manifest.segments.length + " segments");
  }

  @Override
  public Statistics estimateStatistics() {
    long rows = 0;
    long bytes = 0;
    for (Manifest.Rows part : parts) {
      rows += part.rows;
      for (StructField field : columns.fields()) {
        int place = manifest.place(field.name());
        bytes += place < 0 ? 0 : part.sizes[part.fileOf(place - manifest.compared.length)];
      }
    }
    OptionalLong counted = OptionalLong.of(rows);
    OptionalLong size = OptionalLong.of(Math.max(1, bytes));
    return new Statistics() {
      @Override
      public OptionalLong sizeInBytes() {
        return size;
      }

      @Override
      public OptionalLong numRows() {
        return counted;
      }
    };
  }

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
    for (Manifest.Rows segment : parts) {
      StoredRows.File[] files = files(segment);
      long count = (segment.rows + most - 1) / most;
      for (long i = 0; i < count; i++) {
        int from = (int) (segment.rows * i / count);
        int to = (int) (segment.rows * (i + 1) / count);
        found.add(new StoredRows.Part(files, (int) segment.rows, from, to));
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

  private StoredRows.File[] files(Manifest.Rows segment) {
    StructField[] fields = columns.fields();
    StoredRows.File[] files = new StoredRows.File[fields.length];
    for (int i = 0; i < fields.length; i++) {
      int place = manifest.place(fields[i].name());
      int number = segment.fileOf(place - manifest.compared.length);
      files[i] =
          place < 0
              ? null // it was added later
              : new StoredRows.File(segment, number, manifest.isNullable(place));
    }
    return files;
  }

  @Override
  public PartitionReaderFactory createReaderFactory() {
    DataType[] types =
        Arrays.stream(columns.fields()).map(StructField::dataType).toArray(DataType[]::new);
    return new StoredRows(table.path, table.table().python(), manifest.version, types);
  }

  @Override
  public boolean equals(Object other) {
    return other instanceof StoredScan
        && ((StoredScan) other).table.equals(table)
        && ((StoredScan) other).manifest.version == manifest.version
        && ((StoredScan) other).columns.equals(columns)
        && ((StoredScan) other).parts.equals(parts);
  }

  @Override
  public int hashCode() {
    return table.hashCode() + 31 * manifest.version;
  }
}
