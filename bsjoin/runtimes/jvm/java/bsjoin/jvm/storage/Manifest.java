package bsjoin.jvm.storage;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.io.IOException;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.HashSet;
import java.util.List;
import java.util.Objects;
import java.util.Set;
import java.util.StringJoiner;
import java.util.stream.IntStream;
import java.util.stream.Stream;
import org.apache.spark.sql.types.DataType;
import org.apache.spark.sql.types.DataTypes;
import org.apache.spark.sql.types.IntegralType;
import org.apache.spark.sql.types.StructType;
import scala.Option;

/**
 * The metadata of one version of a table; see {@code bsjoin/storage/format.md}.
 *
 * <p>It is not trusted: a name leads nowhere but into the table's data folder, and sizes, counts and
 * types are checked here or when a file is opened.
 */
public final class Manifest {
  /** The folder of the manifests in that of the table. */
  static final String FOLDER = "versions";

  private static final int FORMAT = 2; // with layers; 1 without
  private static final int LARGEST_NUMBER = 999_999_999; // of a version
  private static final long MOST_ROWS = (1L << 31) - 2; // row numbers and their end are ints
  private static final ObjectMapper JSON = new ObjectMapper();

  public final int version;
  final long activatesAtUs;
  public final long createdAtUs;
  final long readAtUs; // when its build began to read the source
  public final int longestRun;
  public final StructType columns;
  public final boolean unique; // declared
  public final String condition; // that the table was built with, as a text; empty without one
  public final String latestBy; // the order whose first rows of a key it has; empty for all rows
  public final int keep; // how many of a key; 0 for all
  public final List<String> keyNames = new ArrayList<>();
  public final List<DataType> keyTypes = new ArrayList<>();
  public final String keys; // their names and types, and which are null-safe, as JSON
  private final List<Boolean> nullsEqual = new ArrayList<>(); // whether null keys are in the index
  public final DataType[] compared; // of the keys that are stored for comparison
  public final int rangeColumns; // 0: equality joins only; 1: points; 2: intervals
  public final Dimension range; // that its rows are sorted by, of no columns without one
  public final String ranged; // their names and types and which ends belong to them, as JSON
  public final boolean ordered; // whether the index has the places of a key's rows in their order
  public final List<Dimension> dimensions = new ArrayList<>(); // that one, then those of boxes
  public final String boxes; // names, types and ends of the latter, as JSON; empty without any
  final int pointColumn; // the place of the column that the range index has as it is; -1 for none
  public final Rows[] segments; // below the layers
  private final Rows[] layers; // the rows of layers, oldest first; null for a layer without
  private final Rows[] gone; // of the same layers the keys that have no rows any more; or null
  public final long live; // rows that a look-up can find

  /**
   * The segments of the rows that match nothing, as a key is null, or in a table for range joins the
   * point or the start; null if such rows were left out. No look-up reads them; a scan does.
   */
  public final Rows[] unindexed;

  private static final Set<String> CLOSED = Set.of("both", "left", "right", "neither");

  private final String where; // what an error calls its file
  private final Object stamp; // what tells that from another of the same name: Storage.stamp
  private final long[] firstHashes; // of the segments

  public final class Rows {
    final String name; // what those of the files begin with
    public final int rows;
    final long firstHash;
    final Long firstKey; // if the rows are in the order of an integer key; else null
    public final int longestRun;
    private final boolean isIndexed; // a segment, whose first file is its index
    final boolean isGone; // which has keys only
    private final long[] sizes;
    private final String[] checksums;
    final StoredFile boxes; // the rows by several ranges at once; null without

    private Rows(JsonNode node, boolean isIndexed, boolean isGone) {
      this.isIndexed = isIndexed;
      this.isGone = isGone;
      name = node.path("name").asText();
      sizes = new long[node.path("sizes").size()];
      checksums = new String[sizes.length];
      Arrays.setAll(sizes, i -> node.path("sizes").path(i).asLong());
      Arrays.setAll(checksums, i -> node.path("checksums").path(i).asText());
      long count = whole(node, "rows");
      long longest = isIndexed ? whole(node, "longest_run") : 1;
      firstHash = isIndexed ? whole(node, "first_hash") : 0;
      firstKey = node.hasNonNull("first_key") ? (Long) whole(node, "first_key") : null;
      check(
          name.matches("data/[A-Za-z0-9_-]{1,80}/[A-Za-z0-9_-]{1,80}"),
          "the segment name '" + name + "' is not in a folder below 'data/'");
      check(
          sizes.length == (isGone ? 0 : columns.length()) + (isIndexed ? 1 + compared.length : 0)
              && node.path("checksums").size() == sizes.length
              && Arrays.stream(sizes).allMatch(size -> size > 0)
              && count >= 1 && count <= MOST_ROWS && longest >= 1 && longest <= count,
          "the segment '" + name + "' has other sizes or rows than bsjoin writes");
      check(
          firstKey == null || isByInteger() && rangeColumns == 0 && !isGone,
          "the segment '" + name + "' has a first_key of no integer");
      JsonNode box = node.path("boxes");
      boxes =
          box.isObject() && dimensions.size() > 1 && !isGone
              ? new StoredFile(
                  name + ".boxes.arrow", whole(box, "size"), box.path("checksum").asText())
              : null;
      rows = (int) count;
      longestRun = (int) longest;
    }

    /** Whether they are the same files, as far as manifests say. */
    boolean isSame(Rows other) {
      return name.equals(other.name)
          && rows == other.rows
          && longestRun == other.longestRun
          && firstHash == other.firstHash
          && Objects.equals(firstKey, other.firstKey)
          && isGone == other.isGone
          && Arrays.equals(sizes, other.sizes)
          && Arrays.equals(checksums, other.checksums);
    }

    /** The file of a stored column, see {@link Manifest#place}; -1: of the index. */
    public StoredFile file(int place) {
      int number = isIndexed ? place : place - compared.length;
      int at = isIndexed ? place + 1 : number;
      String file = name + "." + (place < 0 ? "index" : String.valueOf(number)) + ".arrow";
      return new StoredFile(file, sizes[at], checksums[at]);
    }

    private Stream<String> files() {
      int first = isIndexed ? -1 : compared.length;
      return Stream.concat(
          IntStream.range(first, first + sizes.length).mapToObj(place -> file(place).name()),
          Stream.ofNullable(boxes).map(StoredFile::name));
    }
  }

  private Manifest(JsonNode node, String where, Object stamp) throws IOException {
    this.where = where;
    this.stamp = stamp;
    checkFormat(node, where);
    long number = whole(node, "version");
    check(number >= 1 && number <= LARGEST_NUMBER, "its version is " + number);
    version = (int) number;
    activatesAtUs = whole(node, "activates_at_us");
    createdAtUs = whole(node, "created_at_us");
    readAtUs = createdAtUs - Math.round(node.path("build_s").asDouble(0) * 1e6);
    JsonNode schema = JSON.readTree(node.path("spark_schema").asText());
    // Of the stream whose micro-batch was stored; structs may have it inside, too.
    for (JsonNode metadata : schema.findParents("spark.watermarkDelayMs")) {
      ((ObjectNode) metadata).remove("spark.watermarkDelayMs");
    }
    // Written again: another reader may read the text in another way than was checked. A type of a
    // user names a class, which Spark would load to run its constructor.
    String written = schema.toString();
    check(
        schema.path("type").asText().equals("struct") && !written.contains("\"type\":\"udt\""),
        "its schema has other types than bsjoin writes");
    columns = (StructType) DataType.fromJson(written);
    check(
        node.path("unique").isBoolean() && node.path("build_s").isNumber()
            && node.path("build_s").asDouble() >= 0 && node.path("keys").isArray(),
        "its fields 'unique', 'build_s' and 'keys' are not all there");
    unique = node.path("unique").asBoolean();
    condition = condition(node.path("condition"));
    StringJoiner latest = new StringJoiner(", ");
    node.path("latest").path("order").forEach(one -> latest.add(one.asText()));
    latestBy = latest.toString();
    keep = node.path("latest").path("keep").asInt();
    for (JsonNode key : node.path("keys")) {
      keyNames.add(key.path(0).asText());
      keyTypes.add(Collations.type(key.path(1).asText()));
      nullsEqual.add(key.path(2).asBoolean(false));
    }
    keys = node.path("keys").toString();
    long count = whole(node, "compared");
    List<DataType> types = new ArrayList<>(keyTypes);
    if (hasNullKeys()) {
      types.add(DataTypes.LongType); // which of them are null
    }
    boolean isExact = types.size() == 1 && ColumnType.fits8Bytes(types.get(0));
    check(count == (isExact ? 0 : types.size()), "its keys are not those that are compared");
    compared = new DataType[(int) count];
    Arrays.setAll(
        compared,
        i ->
            ColumnType.fits8Bytes(types.get(i))
                ? DataTypes.LongType
                : Collations.stored(types.get(i)));
    JsonNode first = node.path("ranged");
    ordered = first.path("ordered").asBoolean(false);
    StringJoiner further = new StringJoiner(",", "[", "]").setEmptyValue("");
    if (first.isMissingNode() || first.isNull()) {
      range = new Dimension(List.of(), DataTypes.NullType, "");
      ranged = "";
    } else {
      ranged = addDimension(first, "ranged") + (ordered ? ",true]" : "]");
      range = dimensions.get(0);
      node.path("boxes").forEach(box -> further.add(addDimension(box, "boxes") + "]"));
    }
    rangeColumns = range.names().size();
    check(!ordered || rangeColumns > 1, "its field 'ranged' is of points and ordered");
    pointColumn = pointColumn();
    boxes = further.toString();
    check(
        boxes.isEmpty()
            || dimensions.size() <= Boxes.MOST_DIMENSIONS
                && dimensions.stream().noneMatch(one -> Types.isRanked(one.type())),
        "its field 'boxes' has other ranges than bsjoin writes");
    segments = rows(node, "segments", true);
    unindexed = node.hasNonNull("unindexed") ? rows(node, "unindexed", false) : null;
    JsonNode changes = node.path("layers");
    check(
        changes.isEmpty() || whole(node, "format") > 1,
        "it has layers, and its format is that of a table without");
    layers = new Rows[changes.size()];
    gone = new Rows[layers.length];
    for (int i = 0; i < layers.length; i++) {
      JsonNode layer = changes.get(i);
      layers[i] = layer.hasNonNull("rows") ? new Rows(layer.get("rows"), true, false) : null;
      gone[i] = layer.hasNonNull("gone") ? new Rows(layer.get("gone"), true, true) : null;
      check(layers[i] != null || gone[i] != null, "it has an empty layer");
      check(gone[i] == null || gone[i].longestRun == 1, "a key is gone twice");
    }
    long most = Arrays.stream(shown()).mapToLong(part -> part.rows).sum();
    JsonNode counted = changes.isEmpty() ? changes : node.path("live");
    live = counted.isArray() && !counted.isEmpty() ? counted.get(0).asLong(-1) : most;
    check(live >= 0 && live <= most, "its field 'live' is not the numbers of rows and of keys");
    firstHashes = Arrays.stream(segments).mapToLong(segment -> segment.firstHash).toArray();
    for (int i = 1; i < segments.length; i++) {
      check(firstHashes[i - 1] < firstHashes[i], "its segments are not in order");
    }
    Set<String> names = new HashSet<>();
    parts().forEach(
        part -> check(names.add(part.name), "it lists the segment '" + part.name + "' twice"));
    longestRun = indexed().mapToInt(segment -> segment.longestRun).max().orElse(0);
  }

  /** Read a range; without its end what readers compare of it. */
  private String addDimension(JsonNode node, String field) {
    JsonNode types = node.path("types");
    JsonNode ends = node.path("closed");
    List<String> names = new ArrayList<>();
    node.path("names").forEach(name -> names.add(name.asText()));
    check(
        types.path(0).isTextual() // a user's type names a class, as above
            && types.size() == (ends.isNull() ? 1 : 2)
            && types.size() == names.size()
            && types.path(types.size() - 1).equals(types.path(0))
            && (ends.isNull() || CLOSED.contains(ends.asText())),
        "its field '" + field + "' is neither of points nor of intervals");
    dimensions.add(
        new Dimension(names, DataType.fromJson(types.path(0).toString()), ends.asText("")));
    return "[" + node.path("names") + "," + types + "," + ends;
  }

  private Rows[] rows(JsonNode node, String field, boolean isIndexed) {
    JsonNode listed = node.path(field);
    check(listed.isArray(), "its field '" + field + "' is not a list");
    Rows[] found = new Rows[listed.size()];
    Arrays.setAll(found, i -> new Rows(listed.get(i), isIndexed, false));
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
  private int pointColumn() {
    int found = rangeColumns == 0 ? -1 : place(range.names().get(0));
    DataType type = found < 0 ? null : storedType(found);
    boolean isPlain = type != null && Types.isFull(type) && type.equals(range.type());
    return isPlain ? found : -1;
  }

  /** Refuse another format by its number, before anything else is looked at. */
  private static void checkFormat(JsonNode node, String where) {
    long found = whole(node, "format");
    if (found < 1 || found > FORMAT) {
      String writer = node.path("written_by").asText();
      boolean isNamed = writer.matches("bsjoin [0-9A-Za-z.+-]{1,40}");
      throw TableError.of(
          "TableNotFoundError",
          where + " has format " + found + ", this bsjoin reads formats up to " + FORMAT + ": use "
              + (isNamed ? writer + ", which wrote it," : "the version of bsjoin that wrote it")
              + " or a later one wherever the table is read, or build the table again");
    }
  }

  private static long whole(JsonNode node, String field) {
    JsonNode value = node.path(field);
    if (!value.isIntegralNumber() || !value.canConvertToLong()) {
      throw new IllegalArgumentException("its field '" + field + "' is not a whole number");
    }
    return value.asLong();
  }

  /** Refuse it as damaged if what a reader relies on does not hold. */
  void check(boolean holds, String otherwise) {
    if (!holds) {
      throw TableError.damaged(where, otherwise);
    }
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
      Manifest found = new Manifest(JSON.readTree(content), where, stamp);
      found.check(found.version == version, "it is that of version " + found.version);
      return found;
    } catch (Exception e) { // Spark's reader of types throws checked ones that it does not declare
      if (TableError.is(e)) {
        throw (RuntimeException) e;
      }
      if (Collations.isUnknown(e)) {
        throw TableError.of(
            "TableMismatchError",
            where + " is of a table with texts of a collation that this version of Spark does not "
                + "have. Read it with the version that built it, or a later one. Spark says: "
                + e.getMessage());
      }
      throw TableError.damaged(where, "it is not valid: " + e.getMessage());
    } catch (StackOverflowError e) {
      throw TableError.damaged(where, "it is nested too deep");
    }
  }

  /** The number of the segment that has the rows with a hash, if there are any; -1 if none can. */
  public int segmentOf(long hash) {
    int found = Arrays.binarySearch(firstHashes, hash);
    return found < 0 ? -found - 2 : found;
  }

  /** The segments with an index: those of the base, of layers, of keys that are gone. */
  public Stream<Rows> indexed() {
    return Stream.concat(
        Arrays.stream(shown()), Arrays.stream(gone).filter(Objects::nonNull));
  }

  /** The segments with an index and with rows: those of the base, then those of layers. */
  public Rows[] shown() {
    return Stream.concat(
            Arrays.stream(segments), Arrays.stream(layers).filter(Objects::nonNull))
        .toArray(Rows[]::new);
  }

  /** The numbers, among {@link #indexed}, of those that are not of the base, the newest first. */
  int[] above() {
    int row = shown().length;
    int key = row + (int) Arrays.stream(gone).filter(Objects::nonNull).count();
    int[] found = new int[key - segments.length];
    int count = 0;
    for (int i = layers.length - 1; i >= 0; i--) {
      if (layers[i] != null) {
        found[count++] = --row;
      }
      if (gone[i] != null) {
        found[count++] = --key;
      }
    }
    return found;
  }

  public boolean hasLayers() {
    return layers.length > 0;
  }

  private Stream<Rows> parts() {
    return Stream.concat(indexed(), isWhole() ? Stream.of(unindexed) : Stream.empty());
  }

  Stream<String> files() {
    return parts().flatMap(Rows::files);
  }

  public long rows() {
    return live + (isWhole() ? Arrays.stream(unindexed).mapToLong(part -> part.rows).sum() : 0);
  }

  /** Whether segments of another version are read in the same way. */
  boolean hasFormOf(Manifest other) {
    return columns.equals(other.columns)
        && keys.equals(other.keys)
        && ranged.equals(other.ranged)
        && boxes.equals(other.boxes);
  }

  /** Whether a segment has its rows by several ranges at once. */
  public boolean hasBoxes() {
    return Arrays.stream(shown()).anyMatch(part -> part.boxes != null);
  }

  /** Whether the range columns are stored by their ranks, and not by codes of 64 bits. */
  public boolean isRanked() {
    return rangeColumns > 0 && Types.isRanked(range.type());
  }

  /**
   * Whether all rows of the source are stored. If not, those that match nothing were left out, as
   * earlier versions of bsjoin have done.
   */
  public boolean isWhole() {
    return unindexed != null;
  }

  /** Whether a row may have a null key: then {@code NOT IN} has no answer but null for it. */
  public boolean mayHaveNullKeys() {
    return !indexesAllRows() || hasNullKeys();
  }

  /** Whether the index has all rows of the source. */
  public boolean indexesAllRows() {
    return isWhole() && unindexed.length == 0;
  }

  /** Whether the rows in which a key is null are in the index. */
  public boolean isNullSafe(int key) {
    return nullsEqual.get(key);
  }

  /** Whether the index may have rows with a null key; then the last compared key says in which. */
  public boolean hasNullKeys() {
    return nullsEqual.contains(true);
  }

  /** Whether the key is one integer, and never null. */
  public boolean isByInteger() {
    return keyTypes.size() == 1 && keyTypes.get(0) instanceof IntegralType && !hasNullKeys();
  }

  /** The place of a column among the stored ones, after the compared keys; -1 for none. */
  public int place(String column) {
    Option<Object> found = columns.getFieldIndex(column);
    return found.isEmpty() ? -1 : compared.length + (Integer) found.get();
  }

  public boolean isNullable(int place) {
    return place >= compared.length && columns.fields()[place - compared.length].nullable();
  }

  /** The type of a stored column: first the compared keys, then the columns. */
  DataType storedType(int place) {
    return place < compared.length
        ? compared[place]
        : columns.fields()[place - compared.length].dataType();
  }

  /** The name of a version's file in the table's folder. */
  static String name(int version) {
    String digits = String.valueOf(version); // a format takes longer than the look at the file
    return FOLDER + "/" + "00000000".substring(Math.min(8, digits.length())) + digits + ".json";
  }
}
