package bsjoin.jvm.storage;

import java.io.Serializable;
import org.apache.spark.sql.types.DataType;
import org.apache.spark.sql.types.StructField;
import org.apache.spark.sql.types.StructType;

/**
 * What a plan expects of every version of its table.
 *
 * @param table which it is: a version from before the plan may lack columns that may be null
 * @param keys see {@link Manifest#keys}
 * @param ranged see {@link Manifest#ranged}; empty if any will do
 * @param columns that the plan reads
 */
public record Expected(TableIdentity table, String keys, String ranged, StructType columns)
    implements Serializable {
  /** Refuse a version that the plan was not made for. */
  public void check(Manifest found) {
    if (!keys.equals(found.keys)) {
      throw unfit(
          "TableMismatchError", found,
          "has the keys " + found.keys + ", and this query was planned for " + keys);
    }
    if (!ranged.isEmpty() && !ranged.equals(found.ranged)) {
      throw unfit(
          "TableMismatchError", found,
          "has the range columns " + found.ranged + ", and this query was planned for " + ranged);
    }
    for (StructField field : columns.fields()) {
      String reason = reason(found, field, table.isOlder(found));
      if (!reason.isEmpty()) {
        throw unfit("TableMismatchError", found, reason);
      }
    }
  }

  /** Why a version does not have a column; empty if it has, or an older one need not. */
  public static String reason(Manifest found, StructField field, boolean isOlder) {
    int place = found.place(field.name());
    if (place < 0) {
      return field.nullable() && isOlder // then it was added later
          ? ""
          : "has no column '" + field.name() + "', which this query selects";
    }
    DataType stored = found.storedType(place);
    if (!stored.equals(field.dataType())) {
      return "has the column '" + field.name() + "' as " + stored.simpleString()
          + ", and this query was planned for " + field.dataType().simpleString();
    }
    return field.nullable() || !found.isNullable(place)
        ? ""
        : "may have nulls in the column '" + field.name()
            + "', and this query was planned without";
  }

  /** An error of a version that the plan was not made for. */
  IllegalStateException unfit(String error, Manifest version, String reason) {
    return TableError.of(
        error,
        "version " + version.version + " of the table in '" + table.path() + "' " + reason
            + (table.isOlder(version)
                ? ". The query was planned with a newer version, and this micro-batch began with "
                    + "this one: start the query from a new checkpoint"
                : ". Restart the query: it continues from its checkpoint"));
  }
}
