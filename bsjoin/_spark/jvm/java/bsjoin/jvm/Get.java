package bsjoin.jvm;

import com.fasterxml.jackson.databind.JsonNode;
import org.apache.spark.TaskContext;
import org.apache.spark.sql.types.DataType;
import org.apache.spark.sql.types.DataTypes;
import org.apache.spark.sql.types.Decimal;
import org.apache.spark.sql.types.DecimalType;
import org.apache.spark.unsafe.types.UTF8String;

/**
 * From the reference of a row to the value of one column.
 *
 * <p>A function of a primitive type never returns null: for columns without nulls, of rows that are
 * there; of a missing one, where Spark evaluates what it does not use, it returns zero. The others
 * return null for a null and for a missing row; {@link GetOrNull} has those of numbers.
 */
public abstract class Get<R> extends Function<R> {
  private final String column;
  private final DataType type;
  private final boolean nulls; // whether the plan expects nulls in the table
  private transient Version version;
  private transient int place;
  private transient Opened opened;
  private transient boolean planning; // not in a task: the driver evaluates what is constant

  /** The column in the segment used last, which is that of most rows. */
  private static final class Opened {
    final long segment; // what references to its rows begin with
    final Column column;

    Opened(long segment, Column column) {
      this.segment = segment;
      this.column = column;
    }
  }

  Get(String spec, JsonNode node, DataType type) {
    super(spec, node, type, DataTypes.LongType);
    column = node.path("column").asText();
    this.type = type;
    nulls = node.path("nulls").asBoolean();
  }

  @Override
  public String name() {
    return "bsjoin_get";
  }

  @Override
  public String toString() {
    return name() + "[" + column + "]";
  }

  /** The column in the segment of a reference; null if it was added after that version. */
  final Column column(long reference) {
    Opened last = opened;
    return last != null
            && last.segment == Version.segmentBits(reference)
            && Version.row(reference) < last.column.rows
        ? last.column
        : another(reference);
  }

  /** The same; null if the row is missing or its value is null. */
  final Column valued(long reference) {
    if (reference < 0) {
      return null;
    }
    Column column = column(reference);
    return column == null || column.isNull(Version.row(reference)) ? null : column;
  }

  private Column another(long reference) {
    Version last = version;
    Version found = last != null && last.holds(reference) ? last : open(reference);
    if (place < 0) {
      return null;
    }
    Column column = found.segment(reference).column(place);
    opened = new Opened(Version.segmentBits(reference), column);
    return column;
  }

  private Version open(long reference) {
    Version found = table().of(reference);
    int there = found.manifest.place(column);
    if (there < 0 && nulls && isOlderThanPlan(found)) {
      place = -1; // it was added later
      version = found;
      opened = null;
      return found;
    }
    if (there < 0) {
      throw unfit(
          "OtherKeysError", found, "has no column '" + column + "', which this query selects");
    }
    DataType stored = found.manifest.storedType(there);
    if (!stored.equals(type)) {
      throw unfit(
          "OtherKeysError",
          found,
          "has the column '" + column + "' as " + stored.simpleString()
              + ", and this query was planned for " + type.simpleString());
    }
    if (!nulls && found.manifest.isNullable(there)) {
      throw unfit(
          "OtherKeysError",
          found,
          "may have nulls in the column '" + column + "', and this query was planned without");
    }
    place = there;
    planning = TaskContext.get() == null;
    version = found;
    return found;
  }

  /** A text that may outlive the version, if it becomes a part of a plan. */
  final UTF8String kept(UTF8String text) {
    return planning ? text.copy() : text;
  }

  public static final class OfBoolean extends Get<Boolean> {
    OfBoolean(String spec, JsonNode node, DataType type) {
      super(spec, node, type);
    }

    public boolean invoke(long reference) {
      return reference < 0 ? false : column(reference).getBoolean(Version.row(reference));
    }
  }

  public static final class OfByte extends Get<Byte> {
    OfByte(String spec, JsonNode node, DataType type) {
      super(spec, node, type);
    }

    public byte invoke(long reference) {
      return reference < 0 ? (byte) 0 : column(reference).getByte(Version.row(reference));
    }
  }

  public static final class OfShort extends Get<Short> {
    OfShort(String spec, JsonNode node, DataType type) {
      super(spec, node, type);
    }

    public short invoke(long reference) {
      return reference < 0 ? (short) 0 : column(reference).getShort(Version.row(reference));
    }
  }

  public static final class OfInt extends Get<Integer> {
    OfInt(String spec, JsonNode node, DataType type) {
      super(spec, node, type);
    }

    public int invoke(long reference) {
      return reference < 0 ? 0 : column(reference).getInt(Version.row(reference));
    }
  }

  public static final class OfLong extends Get<Long> {
    OfLong(String spec, JsonNode node, DataType type) {
      super(spec, node, type);
    }

    public long invoke(long reference) {
      return reference < 0 ? 0 : column(reference).getLong(Version.row(reference));
    }
  }

  public static final class OfFloat extends Get<Float> {
    OfFloat(String spec, JsonNode node, DataType type) {
      super(spec, node, type);
    }

    public float invoke(long reference) {
      return reference < 0 ? 0 : column(reference).getFloat(Version.row(reference));
    }
  }

  public static final class OfDouble extends Get<Double> {
    OfDouble(String spec, JsonNode node, DataType type) {
      super(spec, node, type);
    }

    public double invoke(long reference) {
      return reference < 0 ? 0 : column(reference).getDouble(Version.row(reference));
    }
  }

  public static final class OfText extends Get<UTF8String> {
    OfText(String spec, JsonNode node, DataType type) {
      super(spec, node, type);
    }

    public UTF8String invoke(long reference) {
      Column column = valued(reference);
      return column == null ? null : kept(column.getText(Version.row(reference)));
    }
  }

  public static final class OfBinary extends Get<byte[]> {
    OfBinary(String spec, JsonNode node, DataType type) {
      super(spec, node, type);
    }

    public byte[] invoke(long reference) {
      Column column = valued(reference);
      return column == null ? null : column.getBinary(Version.row(reference));
    }
  }

  public static final class OfDecimal extends Get<Decimal> {
    private final int precision;
    private final int scale;

    OfDecimal(String spec, JsonNode node, DataType type) {
      super(spec, node, type);
      precision = ((DecimalType) type).precision();
      scale = ((DecimalType) type).scale();
    }

    public Decimal invoke(long reference) {
      Column column = valued(reference);
      return column == null
          ? null
          : column.getDecimal(Version.row(reference), precision, scale);
    }
  }
}
