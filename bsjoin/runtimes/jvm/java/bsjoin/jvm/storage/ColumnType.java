package bsjoin.jvm.storage;

import java.util.Map;
import org.apache.spark.sql.types.DataType;
import org.apache.spark.sql.types.DataTypes;
import org.apache.spark.sql.types.DayTimeIntervalType;
import org.apache.spark.sql.types.Decimal;
import org.apache.spark.sql.types.DecimalType;
import org.apache.spark.sql.types.StringType;

/**
 * How values of a Spark type are stored.
 *
 * @param width the bytes of a value; -1: a bit; 0: variable
 * @param arrow Arrow's type as one number, see {@link #arrow(int, int, int)}
 */
public record ColumnType(int width, int arrow) {
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

  private static final Map<DataType, ColumnType> SIMPLE =
      Map.ofEntries(
          Map.entry(DataTypes.BooleanType, new ColumnType(-1, arrow(BOOLEAN, 0, 0))),
          Map.entry(DataTypes.ByteType, new ColumnType(1, arrow(INT, 8, 0))),
          Map.entry(DataTypes.ShortType, new ColumnType(2, arrow(INT, 16, 0))),
          Map.entry(DataTypes.IntegerType, new ColumnType(4, arrow(INT, 32, 0))),
          Map.entry(DataTypes.LongType, new ColumnType(8, arrow(INT, 64, 0))),
          Map.entry(DataTypes.FloatType, new ColumnType(4, arrow(FLOATING, 1, 0))),
          Map.entry(DataTypes.DoubleType, new ColumnType(8, arrow(FLOATING, 2, 0))),
          Map.entry(DataTypes.DateType, new ColumnType(4, arrow(DATE, 0, 0))),
          Map.entry(DataTypes.TimestampType, new ColumnType(8, arrow(TIMESTAMP, MICROSECONDS, 0))),
          Map.entry(DataTypes.TimestampNTZType, new ColumnType(8, arrow(TIMESTAMP, MICROSECONDS, 0))),
          Map.entry(DataTypes.BinaryType, new ColumnType(0, arrow(BINARY, 0, 0))));

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
  public static ColumnType of(DataType type) {
    if (type instanceof DecimalType decimal) {
      return new ColumnType(16, arrow(DECIMAL, decimal.precision(), decimal.scale()));
    }
    if (type instanceof DayTimeIntervalType) {
      return new ColumnType(8, arrow(DURATION, MICROSECONDS, 0));
    }
    return type instanceof StringType ? new ColumnType(0, arrow(TEXT, 0, 0)) : SIMPLE.get(type);
  }

  /** Whether values are numbers or times of at most 8 bytes, with decimals of up to 18 digits. */
  static boolean fits8Bytes(DataType type) {
    if (type instanceof DecimalType decimal) {
      return decimal.precision() <= Decimal.MAX_LONG_DIGITS();
    }
    ColumnType stored = of(type);
    return stored != null && stored.width != 0;
  }
}
