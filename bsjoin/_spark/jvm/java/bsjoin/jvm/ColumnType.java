package bsjoin.jvm;

import org.apache.spark.sql.types.BinaryType;
import org.apache.spark.sql.types.BooleanType;
import org.apache.spark.sql.types.ByteType;
import org.apache.spark.sql.types.DataType;
import org.apache.spark.sql.types.DateType;
import org.apache.spark.sql.types.DayTimeIntervalType;
import org.apache.spark.sql.types.DecimalType;
import org.apache.spark.sql.types.DoubleType;
import org.apache.spark.sql.types.FloatType;
import org.apache.spark.sql.types.IntegerType;
import org.apache.spark.sql.types.LongType;
import org.apache.spark.sql.types.ShortType;
import org.apache.spark.sql.types.StringType;
import org.apache.spark.sql.types.TimestampNTZType;
import org.apache.spark.sql.types.TimestampType;

/** How values of a Spark type are stored: Arrow's type and the bytes of a value. */
final class ColumnType {
  final String name;
  final byte arrow; // the number in the Type union of Schema.fbs
  final int width; // bytes of a value; -1: a bit; 0: variable

  private ColumnType(String name, int arrow, int width) {
    this.name = name;
    this.arrow = (byte) arrow;
    this.width = width;
  }

  /** How a type is stored; null for one that the JVM does not read. */
  static ColumnType of(DataType type) {
    String name = type.simpleString();
    if (type instanceof BooleanType) return new ColumnType(name, 6, -1);
    if (type instanceof ByteType) return new ColumnType(name, 2, 1);
    if (type instanceof ShortType) return new ColumnType(name, 2, 2);
    if (type instanceof IntegerType) return new ColumnType(name, 2, 4);
    if (type instanceof LongType) return new ColumnType(name, 2, 8);
    if (type instanceof FloatType) return new ColumnType(name, 3, 4);
    if (type instanceof DoubleType) return new ColumnType(name, 3, 8);
    if (type instanceof DecimalType) return new ColumnType(name, 7, 16);
    if (type instanceof DateType) return new ColumnType(name, 8, 4);
    if (type instanceof TimestampType) return new ColumnType(name, 10, 8);
    if (type instanceof TimestampNTZType) return new ColumnType(name, 10, 8);
    if (type instanceof DayTimeIntervalType) return new ColumnType(name, 18, 8);
    if (type instanceof BinaryType) return new ColumnType(name, 4, 0);
    if (type instanceof StringType) return new ColumnType(name, 5, 0);
    return null;
  }
}
