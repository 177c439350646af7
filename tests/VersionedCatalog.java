import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.UUID;
import java.util.concurrent.ConcurrentHashMap;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.catalyst.analysis.NoSuchTableException;
import org.apache.spark.sql.catalyst.expressions.GenericInternalRow;
import org.apache.spark.sql.connector.catalog.Column;
import org.apache.spark.sql.connector.catalog.Identifier;
import org.apache.spark.sql.connector.catalog.SupportsRead;
import org.apache.spark.sql.connector.catalog.Table;
import org.apache.spark.sql.connector.catalog.TableCapability;
import org.apache.spark.sql.connector.catalog.TableCatalog;
import org.apache.spark.sql.connector.catalog.TableChange;
import org.apache.spark.sql.connector.read.LocalScan;
import org.apache.spark.sql.connector.read.ScanBuilder;
import org.apache.spark.sql.types.DataTypes;
import org.apache.spark.sql.types.StructType;
import org.apache.spark.sql.util.CaseInsensitiveStringMap;
import org.apache.spark.unsafe.types.UTF8String;

/**
 * A catalogue of tables that have versions, as others write catalogues.
 *
 * <p>What it has loaded it loads again only once that is invalidated. A table that it has handed out
 * keeps the rows and the version that it had then.
 */
public final class VersionedCatalog implements TableCatalog {
  private final Map<String, State> tables = new ConcurrentHashMap<>();
  private final Map<String, State> loaded = new ConcurrentHashMap<>();
  private String name;

  @Override
  public void initialize(String name, CaseInsensitiveStringMap options) {
    this.name = name;
  }

  @Override
  public String name() {
    return name;
  }

  /** Write rows as another application does: as the next version of a table, or as the first. */
  public void commit(String table, List<?> keys, String value) {
    State before = tables.get(table);
    int version = before == null ? 1 : before.version + 1;
    String id = before == null ? UUID.randomUUID().toString() : before.id;
    List<InternalRow> rows = new ArrayList<>();
    for (Object key : keys) {
      long k = ((Number) key).longValue();
      rows.add(new GenericInternalRow(new Object[] {k, UTF8String.fromString(value)}));
    }
    tables.put(table, new State(id, version, rows.toArray(new InternalRow[0])));
  }

  /** Remove a table as another application does. */
  public void remove(String table) {
    tables.remove(table);
  }

  @Override
  public Table loadTable(Identifier identifier) throws NoSuchTableException {
    State state = loaded.computeIfAbsent(identifier.name(), tables::get);
    if (state == null) {
      throw new NoSuchTableException(identifier);
    }
    return new Versioned(name + "." + identifier.name(), state);
  }

  @Override
  public void invalidateTable(Identifier identifier) {
    loaded.remove(identifier.name());
  }

  @Override
  public Identifier[] listTables(String[] namespace) {
    return tables.keySet().stream()
        .map(table -> Identifier.of(namespace, table))
        .toArray(Identifier[]::new);
  }

  @Override
  public Table alterTable(Identifier identifier, TableChange... changes) {
    throw new UnsupportedOperationException();
  }

  @Override
  public boolean dropTable(Identifier identifier) {
    throw new UnsupportedOperationException();
  }

  @Override
  public void renameTable(Identifier before, Identifier after) {
    throw new UnsupportedOperationException();
  }

  private static final class State {
    final String id;
    final int version;
    final InternalRow[] rows;

    State(String id, int version, InternalRow[] rows) {
      this.id = id;
      this.version = version;
      this.rows = rows;
    }
  }

  /** A table as it was when it was loaded; one whose name begins with "plain" tells no version. */
  public static final class Versioned implements SupportsRead {
    private final String name;
    private final State state;

    Versioned(String name, State state) {
      this.name = name;
      this.state = state;
    }

    @Override
    public String name() {
      return name;
    }

    @Override
    public String id() {
      return state.id;
    }

    @Override
    public String version() {
      return name.contains(".plain") ? null : String.valueOf(state.version);
    }

    @Override
    public Column[] columns() {
      return new Column[] {
        Column.create("k", DataTypes.LongType), Column.create("v", DataTypes.StringType)
      };
    }

    @Override
    public Set<TableCapability> capabilities() {
      return Set.of(TableCapability.BATCH_READ);
    }

    @Override
    public ScanBuilder newScanBuilder(CaseInsensitiveStringMap options) {
      InternalRow[] rows = state.rows;
      return () ->
          new LocalScan() {
            @Override
            public InternalRow[] rows() {
              return rows;
            }

            @Override
            public StructType readSchema() {
              return new StructType()
                  .add("k", DataTypes.LongType)
                  .add("v", DataTypes.StringType);
            }
          };
    }
  }
}
