package bsjoin.jvm;

import com.fasterxml.jackson.databind.JsonNode;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.types.BinaryType;
import org.apache.spark.sql.types.DataType;
import org.apache.spark.sql.types.DataTypes;
import org.apache.spark.sql.types.Decimal;
import org.apache.spark.sql.types.DecimalType;
import org.apache.spark.sql.types.LongType;
import org.apache.spark.sql.types.StringType;
import org.apache.spark.sql.types.StructField;
import org.apache.spark.sql.types.StructType;
import org.apache.spark.unsafe.types.UTF8String;

/**
 * From a key to the reference of its first row; {@link Version#MISSING} if there is none.
 *
 * <p>Arguments: the key's hash, or the key itself if it is one integer; the time that chooses the version, which is ignored by a plan that is
 * bound to one; and, if equal hashes do not imply equal keys, the key: a text, a
 * binary, or a struct of what is compared.
 */
public abstract class Find extends ByTime<Long> {
  Find(String spec, JsonNode node, DataType[] compared, DataType... key) {
    super(spec, node, compared, inputs(key));
  }

  private static DataType[] inputs(DataType... key) {
    DataType[] found = new DataType[2 + key.length];
    found[0] = DataTypes.LongType;
    found[1] = DataTypes.StringType;
    System.arraycopy(key, 0, found, 2, key.length);
    return found;
  }

  @Override
  public String name() {
    return "bsjoin_find";
  }

  /** Equal hashes imply equal keys. */
  public static final class ByHash extends Find {
    ByHash(String spec, JsonNode node) {
      super(spec, node, new DataType[0]);
    }

    public long invoke(long hash, UTF8String time) {
      return version(time).find(hash);
    }
  }

  /** The key is one integer. */
  public static final class ByInteger extends Find {
    ByInteger(String spec, JsonNode node) {
      super(spec, node, new DataType[0]);
    }

    public long invoke(long key, UTF8String time) {
      return version(time).findInteger(key);
    }
  }

  /** The key is one text. */
  public static final class ByText extends Find {
    ByText(String spec, JsonNode node) {
      super(spec, node, new DataType[] {DataTypes.StringType}, DataTypes.StringType);
    }

    public long invoke(long hash, UTF8String time, UTF8String key) {
      Version version = version(time);
      long found = version.find(hash);
      while (found >= 0
          && !version.segment(found).column(0).equalsText(Version.row(found), key)) {
        found = version.next(found, hash);
      }
      return found;
    }
  }

  /** The key is one binary. */
  public static final class ByBinary extends Find {
    ByBinary(String spec, JsonNode node) {
      super(spec, node, new DataType[] {DataTypes.BinaryType}, DataTypes.BinaryType);
    }

    public long invoke(long hash, UTF8String time, byte[] key) {
      Version version = version(time);
      long found = version.find(hash);
      while (found >= 0
          && !version.segment(found).column(0).equalsBinary(Version.row(found), key)) {
        found = version.next(found, hash);
      }
      return found;
    }
  }

  /** The key is a long decimal, or has several columns. */
  public static final class ByRow extends Find {
    private final DataType[] types;

    ByRow(String spec, JsonNode node) {
      this(spec, node, (StructType) DataType.fromJson(node.path("keys").toString()));
    }

    private ByRow(String spec, JsonNode node, StructType key) {
      super(spec, node, typesOf(key), key);
      types = typesOf(key);
    }

    private static DataType[] typesOf(StructType key) {
      StructField[] fields = key.fields();
      DataType[] found = new DataType[fields.length];
      for (int i = 0; i < found.length; i++) {
        found[i] = fields[i].dataType();
      }
      return found;
    }

    public long invoke(long hash, UTF8String time, InternalRow key) {
      Version version = version(time);
      long found = version.find(hash);
      while (found >= 0 && !equal(version.segment(found), Version.row(found), key)) {
        found = version.next(found, hash);
      }
      return found;
    }

    private boolean equal(Segment segment, int row, InternalRow key) {
      for (int i = 0; i < types.length; i++) {
        Column stored = segment.column(i);
        DataType type = types[i];
        boolean same;
        if (type instanceof LongType) {
          same = stored.getLong(row) == key.getLong(i);
        } else if (type instanceof StringType) {
          same = stored.equalsText(row, key.getUTF8String(i));
        } else if (type instanceof BinaryType) {
          same = stored.equalsBinary(row, key.getBinary(i));
        } else {
          DecimalType decimal = (DecimalType) type;
          Decimal wanted = key.getDecimal(i, decimal.precision(), decimal.scale());
          same = stored.getDecimal(row, decimal.precision(), decimal.scale()).equals(wanted);
        }
        if (!same) {
          return false;
        }
      }
      return true;
    }
  }
}
