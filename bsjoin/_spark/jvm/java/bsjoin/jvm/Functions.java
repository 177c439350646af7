package bsjoin.jvm;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import java.io.IOException;
import java.io.InputStream;
import java.nio.charset.StandardCharsets;
import org.apache.spark.sql.connector.catalog.FunctionCatalog;
import org.apache.spark.sql.connector.catalog.Identifier;
import org.apache.spark.sql.connector.catalog.functions.UnboundFunction;
import org.apache.spark.sql.types.BinaryType;
import org.apache.spark.sql.types.BooleanType;
import org.apache.spark.sql.types.DataType;
import org.apache.spark.sql.types.DateType;
import org.apache.spark.sql.types.DecimalType;
import org.apache.spark.sql.types.DoubleType;
import org.apache.spark.sql.types.FloatType;
import org.apache.spark.sql.types.StringType;
import org.apache.spark.sql.util.CaseInsensitiveStringMap;

/**
 * The catalog of the stored tables, and of the functions that look rows up in them, called in Spark's
 * generated code.
 *
 * <p>A function's name is a JSON object, for {@code bind} sees types and no literals: {@code what}
 * it does (see {@link #loadFunction}), the {@code build} of the jar, the {@code path} of the table,
 * the {@code epoch} and {@code version} of {@code bsjoin._plan.StoredTable}, and what else it needs.
 * The path has no credentials: a table whose URL has one is looked up in Python.
 */
public final class Functions extends StoredTables implements FunctionCatalog {
  private static final ObjectMapper JSON = new ObjectMapper();

  private static final String BUILD = build();

  private String name;

  @Override
  public void initialize(String name, CaseInsensitiveStringMap options) {
    this.name = name;
  }

  @Override
  public String name() {
    return name;
  }

  @Override
  public Identifier[] listFunctions(String[] namespace) {
    return new Identifier[0];
  }

  @Override
  public UnboundFunction loadFunction(Identifier identifier) {
    if (identifier.name().equalsIgnoreCase(AsOf.NAME)) {
      return new AsOf();
    }
    try {
      JsonNode spec = JSON.readTree(identifier.name());
      String wanted = spec.path("build").asText();
      if (!wanted.equals(BUILD)) {
        throw new IllegalArgumentException(
            "another build of bsjoin's jar is attached to this application: " + BUILD
                + " instead of " + wanted + "; use the same version of bsjoin everywhere");
      }
      switch (spec.path("what").asText()) {
        case "build":
          return new Build(identifier.name(), spec);
        case "find":
          return find(identifier.name(), spec);
        case "run":
          return new Run.Whole(identifier.name(), spec);
        case "run pieces":
          return new Run.Pieces(identifier.name(), spec);
        case "count":
          return new Count(identifier.name(), spec);
        case "code":
          return code(identifier.name(), spec);
        case "band":
          return new InBand.First(identifier.name(), spec);
        case "band count":
          return new InBand.Count(identifier.name(), spec);
        case "nearest":
          return new Nearest(identifier.name(), spec);
        case "interval":
          return new InIntervals.First(identifier.name(), spec);
        case "interval count":
          return new InIntervals.Count(identifier.name(), spec);
        case "interval pieces":
          return new InIntervals.Pieces(identifier.name(), spec);
        case "interval rows":
          return new InIntervals.Rows(identifier.name(), spec);
        case "rule":
          return new PublishedRules(identifier.name(), spec);
        case "rule cells":
          return new Route.Cells(identifier.name(), spec);
        case "place":
          return new Route.Place(identifier.name(), spec);
        case "sampled":
          return new Sampled(identifier.name(), spec);
        case "now":
          return new Now(identifier.name(), spec);
        case "batch time":
          return new BatchTime(identifier.name(), spec);
        case "figures":
          return new Figures(identifier.name(), spec);
        case "version":
          return new VersionNumber(identifier.name(), spec);
        case "get":
          return get(identifier.name(), spec);
        default:
          throw new IllegalArgumentException("bsjoin has no function " + identifier.name());
      }
    } catch (IOException e) {
      throw new IllegalArgumentException("bsjoin has no function " + identifier.name(), e);
    }
  }

  private static String build() {
    try (InputStream in = Functions.class.getResourceAsStream("build")) {
      byte[] found = new byte[16];
      return in == null ? "" : new String(found, 0, in.read(found), StandardCharsets.US_ASCII);
    } catch (IOException e) {
      throw new IllegalStateException(e);
    }
  }

  private static UnboundFunction find(String name, JsonNode spec) {
    switch (spec.path("keys").asText()) {
      case "hash":
        return new Find.ByHash(name, spec);
      case "integer":
        return new Find.ByInteger(name, spec);
      case "text":
        return new Find.ByText(name, spec);
      case "binary":
        return new Find.ByBinary(name, spec);
      default:
        return new Find.ByRow(name, spec);
    }
  }

  private static UnboundFunction code(String name, JsonNode spec) {
    DataType type = DataType.fromJson(spec.path("type").toString());
    if (type instanceof DoubleType) return new Code.OfDouble(name, spec, type);
    if (type instanceof DecimalType) return new Code.OfDecimal(name, spec, type);
    if (type instanceof DateType) return new Code.OfInt(name, spec, type);
    return new Code.OfLong(name, spec, type);
  }

  private static UnboundFunction get(String name, JsonNode spec) {
    DataType type = DataType.fromJson(spec.path("type").toString());
    if (type instanceof DecimalType) return new Get.OfDecimal(name, spec, type);
    if (type instanceof StringType) return new Get.OfText(name, spec, type);
    if (type instanceof BinaryType) return new Get.OfBinary(name, spec, type);
    ColumnType stored = ColumnType.of(type);
    if (stored == null) {
      throw new IllegalArgumentException("the JVM does not read columns of " + type);
    }
    boolean nullable = spec.path("nullable").asBoolean();
    return nullable ? getOrNull(name, spec, type, stored) : get(name, spec, type, stored);
  }

  private static UnboundFunction get(
      String name, JsonNode spec, DataType type, ColumnType stored) {
    if (type instanceof BooleanType) return new Get.OfBoolean(name, spec, type);
    if (type instanceof FloatType) return new Get.OfFloat(name, spec, type);
    if (type instanceof DoubleType) return new Get.OfDouble(name, spec, type);
    if (stored.width == 1) return new Get.OfByte(name, spec, type);
    if (stored.width == 2) return new Get.OfShort(name, spec, type);
    if (stored.width == 4) return new Get.OfInt(name, spec, type);
    return new Get.OfLong(name, spec, type);
  }

  private static UnboundFunction getOrNull(
      String name, JsonNode spec, DataType type, ColumnType stored) {
    if (type instanceof BooleanType) return new GetOrNull.OfBoolean(name, spec, type);
    if (type instanceof FloatType) return new GetOrNull.OfFloat(name, spec, type);
    if (type instanceof DoubleType) return new GetOrNull.OfDouble(name, spec, type);
    if (stored.width == 1) return new GetOrNull.OfByte(name, spec, type);
    if (stored.width == 2) return new GetOrNull.OfShort(name, spec, type);
    if (stored.width == 4) return new GetOrNull.OfInt(name, spec, type);
    return new GetOrNull.OfLong(name, spec, type);
  }
}
