package bsjoin.jvm;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import java.io.IOException;
import java.util.ArrayList;
import java.util.HashSet;
import java.util.List;
import java.util.Set;
import java.util.StringJoiner;
import java.util.stream.IntStream;
import java.util.stream.Stream;
import org.apache.spark.sql.types.DataType;
import org.apache.spark.sql.types.DataTypes;
import org.apache.spark.sql.types.DayTimeIntervalType;
import org.apache.spark.sql.types.IntegralType;
import org.apache.spark.sql.types.LongType;
import org.apache.spark.sql.types.StructField;
import org.apache.spark.sql.types.StructType;
import org.apache.spark.sql.types.TimestampNTZType;
import org.apache.spark.sql.types.TimestampType;

/**
 * The metadata of one version of a table; see {@code bsjoin/store/format.md}.
 *
 * <p>It is not trusted: a name leads nowhere but into the table's data folder, and sizes, counts and
 * types are checked here or when a file is opened.
 */
final class Manifest {
  /** The folder of the manifests in that of the table. */
  static final String FOLDER = "versions";

  private static final int FORMAT = 1; // the only one that is read
  private static final int LARGEST_NUMBER = 999_999_999; // of a version
  private static final long MOST_ROWS = (1L << 31) - 2; // row numbers and their end are ints
  private static final ObjectMapper JSON = new ObjectMapper();

  final int version;
  final long activatesAtUs;
  final long createdAtUs;
  final long readAtUs; // when its build began to read the source
  final int longestRun;
  final StructType columns;
  final boolean unique; // declared
  final String condition; // that the table was built with, as a text; empty without one
  final List<String> keyNames = new ArrayList<>();
  final List<DataType> keyTypes = new ArrayList<>();
  final String keys; // their names and types, as JSON
  final DataType[] compared; // of the keys that are stored for comparison
  final int rangeColumns; // 0: equality joins only; 1: points; 2: intervals
  final List<String> rangeNames = new ArrayList<>();
  final List<DataType> rangeTypes = new ArrayList<>(); // in which they are searched
  final String ranged; // their names and types and which ends belong to them, as JSON
  final String closed; // the last of these; empty for points
  final int pointColumn; // the place of the column that the range index has as it is; -1 for none
  final SegmentInfo[] segments;

  /** What tells its file from another of the same name, see {@link Storage#stamp}. */
  private Object stamp;

  /**
   * The segments of the rows that match nothing, as a key is null, or in a table for range joins the
   * point or the start; null if such rows were left out. No look-up reads them; a scan does.
   */
  final Rows[] unindexed;

  /** Rows in files: the beginning of the files' names, their sizes and checksums. */
  static class Rows {
    final String name;
    final long rows;
    final long[] sizes;
    final String[] checksums;
    private final int before; // files before those of the columns that can be selected

    Rows(JsonNode node, int before, int columns, String where) {
      name = node.path("name").asText();
      rows = whole(node, "rows");
      this.before = before;
      sizes = new long[node.path("sizes").size()];
      checksums = new String[sizes.length];
      boolean sized = sizes.length == before + columns && rows >= 1 && rows <= MOST_ROWS;
      sized &= node.path("checksums").size() == sizes.length;
      for (int i = 0; i < sizes.length; i++) {
        sizes[i] = node.path("sizes").get(i).asLong();
        checksums[i] = node.path("checksums").path(i).asText();
        sized &= sizes[i] > 0;
      }
      if (!name.matches("data/[A-Za-z0-9_-]{1,80}/[A-Za-z0-9_-]{1,80}")) {
        throw TableError.damaged(
            where, "the segment name '" + name + "' is not in a folder below 'data/'");
      }
      if (!sized) {
        throw hasOtherSizes(where);
      }
    }

    final IllegalStateException hasOtherSizes(String where) {
      return TableError.damaged(
          where, "the segment '" + name + "' has other sizes or rows than bsjoin writes");
    }

    /** The number of the file of a column that can be selected. */
    final int fileOf(int column) {
      return before + column;
    }

    /** The name of a file: the index, if there is one, then compared keys, then the columns. */
    final String file(int number) {
      int column = before == 0 ? number : number - 1;
      return name + "." + (column < 0 ? "index" : String.valueOf(column)) + ".arrow";
    }
  }

  /** A segment, whose first file is its index. */
  static final class SegmentInfo extends Rows {
    final long firstHash;
    final Long firstKey; // if the rows are in the order of an integer key; else null
    final int longestRun;

    SegmentInfo(JsonNode node, int compared, int columns, boolean isByInteger, String where) {
      super(node, 1 + compared, columns, where);
      firstHash = whole(node, "first_hash");
      firstKey = node.hasNonNull("first_key") ? whole(node, "first_key") : null;
      if (firstKey != null && !isByInteger) {
        throw TableError.damaged(where, "the segment '" + name + "' has a first_key of no integer");
      }
      longestRun = (int) Math.min(whole(node, "longest_run"), Integer.MAX_VALUE);
      if (longestRun < 1 || longestRun > rows) {
        throw hasOtherSizes(where);
      }
    }
  }

  private Manifest(JsonNode node, String where) throws IOException {
    checkFormat(node, where);
    version = (int) whole(node, "version", 1, LARGEST_NUMBER);
    activatesAtUs = whole(node, "activates_at_us");
    createdAtUs = whole(node, "created_at_us");
    readAtUs = createdAtUs - Math.round(node.path("build_s").asDouble(0) * 1e6);
    JsonNode schema = JSON.readTree(node.path("spark_schema").asText());
    if (!schema.path("type").asText().equals("struct") || isUserDefined(schema)) {
      throw TableError.damaged(where, "its schema has other types than bsjoin writes");
    }
    // From the tree that was checked: another reader may read the text in another way.
    columns = (StructType) DataType.fromJson(schema.toString());
    if (!node.path("unique").isBoolean()
        || !node.path("build_s").isNumber()
        || !node.path("keys").isArray()) {
      throw TableError.damaged(where, "its fields 'unique', 'build_s' and 'keys' are not all there");
    }
    unique = node.path("unique").asBoolean();
    condition = condition(node.path("condition"));
    for (JsonNode key : node.path("keys")) {
      keyNames.add(key.path(0).asText());
      keyTypes.add(DataType.fromJson("\"" + key.path(1).asText() + "\""));
    }
    keys = node.path("keys").toString();
    long count = whole(node, "compared");
    if (count != 0 && count != keyTypes.size()) {
      throw TableError.damaged(where, "its keys are not those that are compared");
    }
    compared = new DataType[(int) count];
    for (int i = 0; i < compared.length; i++) {
      ColumnType type = ColumnType.of(keyTypes.get(i));
      boolean hashed = type != null && type.width != 0 && !isLongDecimal(keyTypes.get(i));
      compared[i] = hashed ? DataTypes.LongType : keyTypes.get(i);
    }
    JsonNode range = node.path("ranged");
    rangeColumns = range.isMissingNode() || range.isNull() ? 0 : range.path("closed").isNull() ? 1 : 2;
    boolean isClosed = rangeColumns < 2 || range.path("closed").isTextual();
    if (range.path("names").size() != rangeColumns || !isClosed) {
      throw TableError.damaged(where, "its field 'ranged' is neither of points nor of intervals");
    }
    for (int i = 0; i < rangeColumns; i++) {
      rangeNames.add(range.path("names").get(i).asText());
      JsonNode type = range.path("types").path(i);
      if (!type.isTextual()) { // a user-defined type names a class, which Spark would load
        throw TableError.damaged(where, "its field 'ranged' has other types than bsjoin writes");
      }
      rangeTypes.add(DataType.fromJson(type.toString()));
    }
    ranged = rangeColumns == 0 ? "" : ranged(range);
    closed = range.path("closed").asText("");
    pointColumn = pointColumn(range);
    boolean isByInteger =
        keyTypes.size() == 1
            && keyTypes.get(0) instanceof IntegralType
            && rangeColumns == 0;
    JsonNode listed = node.path("segments");
    if (!listed.isArray()) {
      throw TableError.damaged(where, "it has no list of segments");
    }
    segments = new SegmentInfo[listed.size()];
    int longest = 0;
    for (int i = 0; i < segments.length; i++) {
      segments[i] =
          new SegmentInfo(
              listed.get(i), compared.length, columns.length(), isByInteger, where);
      if (i > 0 && segments[i - 1].firstHash >= segments[i].firstHash) {
        throw TableError.damaged(where, "its segments are not in order");
      }
      longest = Math.max(longest, segments[i].longestRun);
    }
    longestRun = longest;
    unindexed = node.hasNonNull("unindexed") ? unindexed(node.path("unindexed"), where) : null;
  }

  private Rows[] unindexed(JsonNode listed, String where) {
    if (!listed.isArray()) {
      throw TableError.damaged(where, "its field 'unindexed' is not a list");
    }
    Rows[] found = new Rows[listed.size()];
    for (int i = 0; i < found.length; i++) {
      found[i] = new Rows(listed.get(i), 0, columns.length(), where);
    }
    Set<String> names = new HashSet<>();
    for (SegmentInfo segment : segments) {
      names.add(segment.name);
    }
    for (Rows segment : found) {
      if (!names.add(segment.name)) {
        throw TableError.damaged(where, "it lists the segment '" + segment.name + "' twice");
      }
    }
    return found;
  }

  /** A condition in the form in which Python shows it. */
  private static String condition(JsonNode node) {
    if (!node.isObject() || node.isEmpty()) {
      return "";
    }
    String name = node.fieldNames().next();
    StringJoiner arguments = new StringJoiner(", ", name + "(", ")");
    node.path(name).fields().forEachRemaining(one -> arguments.add(one.getKey() + "=" + one.getValue()));
    return arguments.toString();
  }

  /** The place of the first range column, if its values are their own codes; -1 if not. */
  private int pointColumn(JsonNode range) {
    int found = place(range.path("names").path(0).asText());
    DataType type = found < 0 ? null : storedType(found);
    boolean plain =
        type instanceof LongType
            || type instanceof TimestampType
            || type instanceof TimestampNTZType
            || type instanceof DayTimeIntervalType;
    return plain && type.json().equals(range.path("types").path(0).toString()) ? found : -1;
  }

  private static String ranged(JsonNode range) {
    return "[" + range.path("names") + "," + range.path("types") + "," + range.path("closed") + "]";
  }

  /** Refuse another format by its number, before anything else is looked at. */
  private static void checkFormat(JsonNode node, String where) {
    long found = whole(node, "format");
    if (found != FORMAT) {
      String writer = node.path("written_by").asText();
      boolean isNamed = writer.matches("bsjoin [0-9A-Za-z.+-]{1,40}");
      throw TableError.of(
          "NotATableError",
          where + " has format " + found + ", this bsjoin reads format " + FORMAT + ": use "
              + (isNamed ? writer + ", which wrote it," : "the version of bsjoin that wrote it")
              + " or a later one wherever the table is read, or build the table again");
    }
  }

  private static long whole(JsonNode node, String field, long least, long most) {
    long found = whole(node, field);
    if (found < least || found > most) {
      throw new IllegalArgumentException(
          "its field '" + field + "' is " + found + ", not from " + least + " to " + most);
    }
    return found;
  }

  private static long whole(JsonNode node, String field) {
    JsonNode value = node.path(field);
    if (!value.isIntegralNumber() || !value.canConvertToLong()) {
      throw new IllegalArgumentException("its field '" + field + "' is not a whole number");
    }
    return value.asLong();
  }

  /** Whether its file is known to be the one that was read. */
  boolean isStill(Storage storage) {
    return stamp != null && stamp.equals(storage.stamp(version));
  }

  /**
   * The same manifest as it is there now; null if it is not there (any more).
   *
   * @throws IllegalStateException the table was built again at its path: this is another version
   */
  Manifest again(Storage storage) {
    if (stamp == null || isStill(storage)) {
      return this;
    }
    Manifest there = read(storage, version);
    if (there != null && there.createdAtUs != createdAtUs) {
      throw TableError.builtAgain(
          version, storage.name, "analysed", "Make the DataFrame or view anew");
    }
    return there;
  }

  /** The manifest of a version; null if it is not there (any more). */
  static Manifest read(Storage storage, int version) {
    String where = storage.nameOf(name(version));
    Object stamp = storage.stamp(version); // first: a later file has another
    String content = storage.manifest(version);
    if (content == null) {
      return null;
    }
    try {
      Manifest found = new Manifest(JSON.readTree(content), where);
      if (found.version != version) {
        throw TableError.damaged(where, "it is that of version " + found.version);
      }
      found.stamp = stamp;
      return found;
    } catch (Exception e) { // Spark's reader of types throws checked ones that it does not declare
      if (TableError.is(e)) {
        throw (RuntimeException) e;
      }
      throw TableError.damaged(where, "it is not valid: " + e.getMessage());
    } catch (StackOverflowError e) {
      throw TableError.damaged(where, "it is nested too deep");
    }
  }

  /** The number of the segment that has the rows with a hash, if there are any; -1 if none can. */
  int segmentOf(long hash) {
    int low = 0;
    int high = segments.length;
    while (low < high) {
      int middle = (low + high) >>> 1;
      if (segments[middle].firstHash <= hash) {
        low = middle + 1;
      } else {
        high = middle;
      }
    }
    return low - 1;
  }

  /** All that has rows. */
  Stream<Rows> parts() {
    return Stream.concat(Stream.of(segments), isWhole() ? Stream.of(unindexed) : Stream.empty());
  }

  /** The number of all rows that are stored. */
  long rows() {
    return parts().mapToLong(part -> part.rows).sum();
  }

  /** Whether the range columns have codes of 64 bits; others are stored by their ranks. */
  boolean hasRangeCodes() {
    for (DataType type : rangeTypes) {
      ColumnType stored = ColumnType.of(type);
      if (stored == null || stored.width == 0 || isLongDecimal(type)) {
        return false;
      }
    }
    return rangeColumns > 0;
  }

  /** The names of all files. */
  Stream<String> files() {
    return parts().flatMap(part -> IntStream.range(0, part.sizes.length).mapToObj(part::file));
  }

  /**
   * Whether all rows of the source are stored. If not, those that match nothing were left out, as
   * earlier versions of bsjoin have done.
   */
  boolean isWhole() {
    return unindexed != null;
  }

  /** Whether a row may have a null key: then {@code NOT IN} has no answer but null for it. */
  boolean mayHaveNullKeys() {
    return !isWhole() || unindexed.length > 0;
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

  /** Whether a stored column may have nulls. */
  boolean isNullable(int place) {
    return place >= compared.length && columns.fields()[place - compared.length].nullable();
  }

  /** The type of a stored column: first the compared keys, then the columns. */
  DataType storedType(int place) {
    return place < compared.length
        ? compared[place]
        : columns.fields()[place - compared.length].dataType();
  }

  /** Whether a schema names a class somewhere: Spark would load it and run its constructor. */
  private static boolean isUserDefined(JsonNode type) {
    if (type.path("type").asText().equals("udt")) {
      return true;
    }
    for (JsonNode part : type) {
      if (isUserDefined(part)) {
        return true;
      }
    }
    return false;
  }

  private static boolean isLongDecimal(DataType type) {
    return type instanceof org.apache.spark.sql.types.DecimalType
        && ((org.apache.spark.sql.types.DecimalType) type).precision() > 18;
  }

  /** The name of a version's file in the table's folder. */
  static String name(int version) {
    String digits = String.valueOf(version); // a format takes longer than the look at the file
    return FOLDER + "/" + "00000000".substring(Math.min(8, digits.length())) + digits + ".json";
  }
}
