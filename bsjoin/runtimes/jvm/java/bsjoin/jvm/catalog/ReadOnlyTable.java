package bsjoin.jvm.catalog;

import java.util.EnumSet;
import java.util.Set;
import org.apache.spark.sql.connector.catalog.SupportsRead;
import org.apache.spark.sql.connector.catalog.SupportsRowLevelOperations;
import org.apache.spark.sql.connector.catalog.SupportsWrite;
import org.apache.spark.sql.connector.catalog.TableCapability;
import org.apache.spark.sql.connector.catalog.TruncatableTable;
import org.apache.spark.sql.connector.write.LogicalWriteInfo;
import org.apache.spark.sql.connector.write.RowLevelOperationBuilder;
import org.apache.spark.sql.connector.write.RowLevelOperationInfo;
import org.apache.spark.sql.connector.write.WriteBuilder;

/**
 * A table that refuses every write by an error that says what to do instead. For that it claims to
 * take them: of a table that does not, Spark says only that it does not.
 */
public abstract class ReadOnlyTable
    implements SupportsRead, SupportsWrite, SupportsRowLevelOperations, TruncatableTable {

  /** The error of whoever would change a stored table through Spark. */
  static UnsupportedOperationException refusal(String name) {
    return new UnsupportedOperationException(
        "the tables of bsjoin are read only in Spark, and '" + name + "' is one: build or replace "
            + "it by bsjoin.BatchTable.build(df, on=..., path=...) in Python, and remove it by "
            + "removing its folder");
  }

  @Override
  public Set<TableCapability> capabilities() {
    return EnumSet.of(
        TableCapability.BATCH_READ,
        TableCapability.BATCH_WRITE,
        TableCapability.TRUNCATE,
        TableCapability.OVERWRITE_BY_FILTER,
        TableCapability.OVERWRITE_DYNAMIC,
        TableCapability.ACCEPT_ANY_SCHEMA);
  }

  @Override
  public WriteBuilder newWriteBuilder(LogicalWriteInfo info) {
    throw refusal(name());
  }

  @Override
  public RowLevelOperationBuilder newRowLevelOperationBuilder(RowLevelOperationInfo info) {
    throw refusal(name());
  }

  @Override
  public boolean truncateTable() {
    throw refusal(name());
  }
}
