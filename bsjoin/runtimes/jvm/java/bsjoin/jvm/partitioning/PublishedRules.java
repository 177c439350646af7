package bsjoin.jvm.partitioning;

import bsjoin.jvm.spark.Function;
import bsjoin.jvm.storage.Storage;
import bsjoin.jvm.storage.TableError;
import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import java.io.IOException;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.NoSuchFileException;
import java.nio.file.Path;
import java.nio.file.Paths;
import java.util.TreeMap;
import org.apache.spark.sql.types.DataTypes;
import org.apache.spark.unsafe.types.UTF8String;

/**
 * The partition rule that a micro-batch uses, by its timestamp, from the folder that has the rules:
 * {@code Rules.at} of {@code bsjoin/partitioning/published.py}.
 *
 * <p>Its argument is constant, so the optimizer evaluates it in the driver, once per micro-batch, and
 * the tasks get the rule as a constant. It is the JSON object of the file, or that of the plan as
 * long as no rule is active.
 */
public final class PublishedRules extends Function<UTF8String> {
  private static final long LARGEST = 16 << 20;

  private final String folder;
  private final UTF8String first; // the rule before those of the folder
  private final int partitions;
  private transient TreeMap<Integer, JsonNode> known;

  public PublishedRules(String spec, JsonNode node) {
    super(spec, node, DataTypes.StringType, DataTypes.StringType);
    folder = node.path("folder").asText();
    first = UTF8String.fromString(node.path("first").asText());
    partitions = node.path("partitions").asInt();
  }

  @Override
  public String name() {
    return "bsjoin_rule";
  }

  public synchronized UTF8String invoke(UTF8String time) {
    if (!Files.isDirectory(Paths.get(folder))) {
      throw TableError.of(
          "StoreError",
          "the partition rules are in '" + folder + "', and this machine has no such folder: give "
              + "HotSpot(store=...) a folder or URL that the driver and all workers can access");
    }
    TreeMap<Integer, JsonNode> there = new TreeMap<>();
    for (String file : Storage.list(Paths.get(folder), "the rules", folder)) {
      if (file.matches("[0-9]{8,9}\\.rule")) {
        int number = Integer.parseInt(file.substring(0, file.indexOf('.')));
        JsonNode rule = known == null ? null : known.get(number);
        rule = rule == null ? load(Paths.get(folder, file), number) : rule;
        if (rule != null) {
          there.put(number, rule);
        }
      }
    }
    known = there;
    long timeUs = Long.parseLong(time.toString());
    UTF8String found = first;
    for (JsonNode rule : known.values()) {
      if (rule.path("activates_at_us").asLong(Long.MAX_VALUE) <= timeUs) {
        found = UTF8String.fromString(rule.toString());
      }
    }
    return found;
  }

  /** A rule; null if it is damaged or gone: the rows go by an older one. */
  private JsonNode load(Path file, int number) {
    String text;
    try {
      if (Files.size(file) > LARGEST) {
        return null;
      }
      text = new String(Files.readAllBytes(file), StandardCharsets.UTF_8);
    } catch (NoSuchFileException e) {
      return null;
    } catch (IOException e) {
      throw TableError.inaccessible("read a rule", folder, e);
    }
    try {
      JsonNode read = new ObjectMapper().readTree(text);
      Router rule = Router.of(read.path("rule").asText());
      boolean right =
          rule.version() == number
              && read.path("capacity").asInt() > 0
              && rule.partitions() == partitions;
      return right ? read : null;
    } catch (IOException | IllegalArgumentException e) {
      return null;
    }
  }
}
