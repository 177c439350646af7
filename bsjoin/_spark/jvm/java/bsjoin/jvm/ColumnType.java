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
  // The numbers in the Type union of Schema.fbs.
  static final int DECIMAL = 7;
  static final int DATE = 8;
  private static final int INT = 2;
  private static final int FLOATING = 3;
  private static final int BINARY = 4;
  private static final int TEXT = 5;
  private static final int BOOLEAN = 6;
  private static final int TIMESTAMP = 10;
  private static final int DURATION = 18;
  private static final int MICROSECONDS = 2; // a TimeUnit

  final String name;
  final int arrow; // see arrow()
  final int width; // bytes of a value; -1: a bit; 0: variable

  private ColumnType(DataType type, int width, int kind, int first, int second) {
    this.name = type.simpleString();
    this.width = width;
    this.arrow = arrow(kind, first, second);
  }

  private ColumnType(DataType type, int width, int kind, int first) {
    this(type, width, kind, first, 0);
  }

  /**
   * An Arrow type as one number.
   *
   * @param kind its number in the Type union
   * @param first the first field of its table: the bits of an integer, a precision, or a unit
   * @param second the scale of a decimal; 0 for others
   */
  static int arrow(int kind, int first, int second) {
    return kind & 0xff | (second & 0xff) << 8 | first << 16;
  }

  /** How a type is stored; null for one that the JVM does not read. */
  static ColumnType of(DataType type) {
    if (type instanceof BooleanType) return new ColumnType(type, -1, BOOLEAN, 0);
    if (type instanceof ByteType) return new ColumnType(type, 1, INT, 8);
    if (type instanceof ShortType) return new ColumnType(type, 2, INT, 16);
    if (type instanceof IntegerType) return new ColumnType(type, 4, INT, 32);
    if (type instanceof LongType) return new ColumnType(type, 8, INT, 64);
    if (type instanceof FloatType) return new ColumnType(type, 4, FLOATING, 1);
    if (type instanceof DoubleType) return new ColumnType(type, 8, FLOATING, 2);
    if (type instanceof DateType) return new ColumnType(type, 4, DATE, 0);
    if (type instanceof TimestampType) return new ColumnType(type, 8, TIMESTAMP, MICROSECONDS);
    if (type instanceof TimestampNTZType) return new ColumnType(type, 8, TIMESTAMP, MICROSECONDS);
    if (type instanceof DayTimeIntervalType) {
      return new ColumnType(type, 8, DURATION, MICROSECONDS);
    }
    if (type instanceof BinaryType) return new ColumnType(type, 0, BINARY, 0);
    if (type instanceof StringType) return new ColumnType(type, 0, TEXT, 0);
    if (type instanceof DecimalType) {
      DecimalType decimal = (DecimalType) type;
      return new ColumnType(type, 16, DECIMAL, decimal.precision(), decimal.scale());
    }
    return null;
  }
}
