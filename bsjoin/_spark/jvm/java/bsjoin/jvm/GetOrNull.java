package bsjoin.jvm;

import com.fasterxml.jackson.databind.JsonNode;
import org.apache.spark.sql.types.DataType;

/**
 * {@link Get} of numbers and times that may be null.
 *
 * <p>The compiler of the JVM leaves the objects out again where generated code asks at once whether
 * they are null.
 */
final class GetOrNull {
  private GetOrNull() {}

  public static final class OfBoolean extends Get<Boolean> {
    OfBoolean(String spec, JsonNode node, DataType type) {
      super(spec, node, type);
    }

    public Boolean invoke(long reference) {
      Column column = valued(reference);
      return column == null ? null : column.getBoolean(Version.row(reference));
    }
  }

  public static final class OfByte extends Get<Byte> {
    OfByte(String spec, JsonNode node, DataType type) {
      super(spec, node, type);
    }

    public Byte invoke(long reference) {
      Column column = valued(reference);
      return column == null ? null : column.getByte(Version.row(reference));
    }
  }

  public static final class OfShort extends Get<Short> {
    OfShort(String spec, JsonNode node, DataType type) {
      super(spec, node, type);
    }

    public Short invoke(long reference) {
      Column column = valued(reference);
      return column == null ? null : column.getShort(Version.row(reference));
    }
  }

  public static final class OfInt extends Get<Integer> {
    OfInt(String spec, JsonNode node, DataType type) {
      super(spec, node, type);
    }

    public Integer invoke(long reference) {
      Column column = valued(reference);
      return column == null ? null : column.getInt(Version.row(reference));
    }
  }

  public static final class OfLong extends Get<Long> {
    OfLong(String spec, JsonNode node, DataType type) {
      super(spec, node, type);
    }

    public Long invoke(long reference) {
      Column column = valued(reference);
      return column == null ? null : column.getLong(Version.row(reference));
    }
  }

  public static final class OfFloat extends Get<Float> {
    OfFloat(String spec, JsonNode node, DataType type) {
      super(spec, node, type);
    }

    public Float invoke(long reference) {
      Column column = valued(reference);
      return column == null ? null : column.getFloat(Version.row(reference));
    }
  }

  public static final class OfDouble extends Get<Double> {
    OfDouble(String spec, JsonNode node, DataType type) {
      super(spec, node, type);
    }

    public Double invoke(long reference) {
      Column column = valued(reference);
      return column == null ? null : column.getDouble(Version.row(reference));
    }
  }
}
