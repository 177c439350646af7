package bsjoin.jvm;

import bsjoin.jvm.catalog.StoredTables;
import bsjoin.jvm.functions.CollationFunction;
import bsjoin.jvm.functions.NetworkBound;
import bsjoin.jvm.kafka.Routed;
import bsjoin.jvm.lookup.Figures;
import bsjoin.jvm.partitioning.PublishedRules;
import bsjoin.jvm.partitioning.Route;
import bsjoin.jvm.planner.AsOf;
import bsjoin.jvm.planner.Linkage;
import bsjoin.jvm.planner.Matches;
import bsjoin.jvm.planner.Planner;
import bsjoin.jvm.planner.Where;
import bsjoin.jvm.spark.BatchTime;
import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import java.io.IOException;
import java.io.InputStream;
import java.nio.charset.StandardCharsets;
import org.apache.spark.sql.catalyst.analysis.NoSuchFunctionException;
import org.apache.spark.sql.connector.catalog.FunctionCatalog;
import org.apache.spark.sql.connector.catalog.Identifier;
import org.apache.spark.sql.connector.catalog.functions.UnboundFunction;
import org.apache.spark.sql.util.CaseInsensitiveStringMap;

/**
 * The catalog of the stored tables, and of the functions that stand for what bsjoin does with rows:
 * join them, and send them to partitions.
 *
 * <p>A function's name is a JSON object, for {@code bind} sees types and no literals: {@code what}
 * it does (see {@link #loadFunction}), the {@code build} of the jar, the {@code path} of the table,
 * the {@code newest}, {@code epoch} and {@code version} of {@code bsjoin.plan.StoredTable}, and what
 * else it needs. The path has no credentials: a table whose URL has one is looked up in Python.
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
  public UnboundFunction loadFunction(Identifier identifier) throws NoSuchFunctionException {
    if (identifier.name().equalsIgnoreCase(AsOf.NAME)) {
      return new AsOf();
    }
    if (identifier.name().equalsIgnoreCase(Figures.NAME)) {
      return new Figures();
    }
    UnboundFunction ofNetworks = NetworkBound.of(identifier.name());
    UnboundFunction ofTexts = CollationFunction.of(identifier.name());
    if (ofNetworks != null || ofTexts != null) {
      return ofNetworks != null ? ofNetworks : ofTexts;
    }
    try {
      JsonNode spec = JSON.readTree(identifier.name());
      if (!spec.isObject()) {
        throw new NoSuchFunctionException(identifier);
      }
      String wanted = spec.path("build").asText();
      if (!wanted.equals(BUILD)) {
        throw new IllegalArgumentException(
            "another build of bsjoin's jar is attached to this application: " + BUILD
                + " instead of " + wanted + "; use the same version of bsjoin everywhere");
      }
      String what = spec.path("what").asText();
      if (what.equals("planner")) {
        Linkage.check();
      }
      return switch (what) {
        case "matches" -> new Matches(identifier.name(), spec);
        case "where" -> new Where(identifier.name(), spec);
        case "rule" -> new PublishedRules(identifier.name(), spec);
        case "place" -> {
          Planner.install();
          yield new Route(identifier.name(), spec);
        }
        case "named" -> new Route.Named(identifier.name(), spec);
        case "routed headers" -> new Routed.Headers(identifier.name(), spec);
        case "routed topic" -> {
          Planner.install();
          yield new Routed.Topic(identifier.name(), spec);
        }
        // Of the first two nobody asks for the result: their calls show that they can be called.
        case "build", "planner", "batch time" -> new BatchTime(identifier.name(), spec);
        default -> throw new NoSuchFunctionException(identifier);
      };
    } catch (IOException e) {
      throw new NoSuchFunctionException(identifier);
    }
  }

  private static String build() {
    try (InputStream in = Functions.class.getResourceAsStream("build")) {
      return in == null ? "" : new String(in.readAllBytes(), StandardCharsets.US_ASCII);
    } catch (IOException e) {
      throw new IllegalStateException(e);
    }
  }
}
