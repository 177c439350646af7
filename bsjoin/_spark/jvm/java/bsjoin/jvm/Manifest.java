package bsjoin.jvm;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import java.io.IOException;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import org.apache.spark.sql.types.DataType;
import org.apache.spark.sql.types.DataTypes;
import org.apache.spark.sql.types.StructField;
import org.apache.spark.sql.types.StructType;

/**
 * The metadata of one version of a table; see {@code bsjoin/store/manifest.py}, which writes it.
 *
 * <p>It is not trusted: a name leads nowhere but into the table's data folder, and sizes, counts and
 * types are checked here or when a file is opened.
 */
final class Manifest {
  private static final long LARGEST = 32L << 20;
  private static final long MOST_ROWS = (1L << 31) - 2; // row numbers and their end are ints
  private static final ObjectMapper JSON = new ObjectMapper();

  final int version;
  final long activatesAtUs;
  final long createdAtUs;
  final int longestRun;
  final StructType columns;
  final String keys; // their names and types, as JSON
  final DataType[] compared; // of the keys that are stored for comparison
  final SegmentInfo[] segments;

  /** One segment: the beginning of its files' names, and their sizes. */
  static final class SegmentInfo {
    final String name;
    final long rows;
    final long firstHash;
    final long[] sizes;

    SegmentInfo(JsonNode node, int files, String where) {
      name = node.path("name").asText();
      rows = node.path("rows").asLong();
      firstHash = node.path("first_hash").asLong();
      sizes = new long[node.path("sizes").size()];
      for (int i = 0; i < sizes.length; i++) {
        sizes[i] = node.path("sizes").get(i).asLong();
      }
      boolean plain =
          name.matches("data/[A-Za-z0-9_-]{1,80}/[A-Za-z0-9_-]{1,80}");
      boolean sized = sizes.length == files;
      for (long size : sizes) {
        sized &= size > 0;
      }
      if (!plain || !sized || rows < 1 || rows > MOST_ROWS) {
        throw TableError.damaged(
            where,
            plain
                ? "the segment '" + name + "' has other sizes or rows than bsjoin writes"
                : "the segment name '" + name + "' is not in a folder below 'data/'");
      }
    }

    /** A file: 0 for the index, then the columns. */
    String file(int number) {
      return name + "." + (number == 0 ? "index" : String.valueOf(number - 1)) + ".arrow";
    }
  }

  private Manifest(JsonNode node, String where) {
    version = node.path("version").asInt();
    activatesAtUs = node.path("activates_at_us").asLong();
    createdAtUs = node.path("created_at_us").asLong();
    columns = (StructType) DataType.fromJson(node.path("spark_schema").asText());
    List<DataType> keyTypes = new ArrayList<>();
    for (JsonNode key : node.path("keys")) {
      keyTypes.add(DataType.fromJson("\"" + key.path(1).asText() + "\""));
    }
    keys = node.path("keys").toString();
    int count = node.path("compared").asInt();
    if (node.path("format").asInt() != 1 || (count != 0 && count != keyTypes.size())) {
      throw TableError.damaged(where, "it is not a manifest of this version of bsjoin");
    }
    compared = new DataType[count];
    for (int i = 0; i < count; i++) {
      ColumnType type = ColumnType.of(keyTypes.get(i));
      boolean hashed = type != null && type.width != 0 && !isLongDecimal(keyTypes.get(i));
      compared[i] = hashed ? DataTypes.LongType : keyTypes.get(i);
    }
    JsonNode listed = node.path("segments");
    segments = new SegmentInfo[listed.size()];
    int longest = 0;
    for (int i = 0; i < segments.length; i++) {
      segments[i] = new SegmentInfo(listed.get(i), 1 + count + columns.length(), where);
      if (i > 0 && segments[i - 1].firstHash >= segments[i].firstHash) {
        throw TableError.damaged(where, "its segments are not in order");
      }
      longest = Math.max(longest, listed.get(i).path("longest_run").asInt());
    }
    longestRun = longest;
  }

  /** The manifest of a version; null if it is not there (any more). */
  static Manifest read(Path table, int version) throws IOException {
    Path file = table.resolve(name(version));
    String where = Mapping.nameOf(table, name(version));
    if (!Files.exists(file)) {
      return null;
    }
    if (Files.size(Mapping.found(table, name(version))) > LARGEST) {
      throw TableError.damaged(where, "it is too large for a manifest");
    }
    String content = new String(Files.readAllBytes(file), StandardCharsets.UTF_8);
    try {
      Manifest found = new Manifest(JSON.readTree(content), where);
      if (found.version != version) {
        throw TableError.damaged(where, "it is that of version " + found.version);
      }
      return found;
    } catch (RuntimeException e) {
      if (TableError.is(e)) {
        throw e;
      }
      throw TableError.damaged(where, e.toString());
    }
  }

  /** The numbers of the versions that are there, ascending. */
  static int[] numbers(Path table) {
    String[] names = table.resolve("versions").toFile().list();
    List<Integer> found = new ArrayList<>();
    for (String name : names == null ? new String[0] : names) {
      if (name.matches("[0-9]{8,9}\\.json")) {
        found.add(Integer.valueOf(name.substring(0, name.length() - 5)));
      }
    }
    int[] numbers = new int[found.size()];
    for (int i = 0; i < numbers.length; i++) {
      numbers[i] = found.get(i);
    }
    Arrays.sort(numbers);
    return numbers;
  }

  /** The place of a column among the stored ones, after the compared keys; -1 for none. */
  int place(String column) {
    StructField[] fields = columns.fields();
    for (int i = 0; i < fields.length; i++) {
      if (fields[i].name().equals(column)) {
        return compared.length + i;
      }
    }
    return -1;
  }

  /** The type of a stored column: first the compared keys, then the columns. */
  DataType storedType(int place) {
    return place < compared.length
        ? compared[place]
        : columns.fields()[place - compared.length].dataType();
  }

  private static boolean isLongDecimal(DataType type) {
    return type instanceof org.apache.spark.sql.types.DecimalType
        && ((org.apache.spark.sql.types.DecimalType) type).precision() > 18;
  }

  /** The name of a version's file in the table's folder. */
  static String name(int version) {
    return String.format("versions/%08d.json", version);
  }
}
