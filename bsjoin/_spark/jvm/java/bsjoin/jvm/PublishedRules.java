package bsjoin.jvm;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import java.io.IOException;
import java.io.UncheckedIOException;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.NoSuchFileException;
import java.nio.file.Path;
import java.nio.file.Paths;
import java.util.TreeMap;
import java.util.stream.Stream;
import org.apache.spark.sql.types.DataTypes;
import org.apache.spark.unsafe.types.UTF8String;

/**
 * The partition rule that a micro-batch uses, by its timestamp, from the folder that has the rules:
 * {@code Rules.at} of {@code bsjoin/hotspot/published.py}.
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

  PublishedRules(String spec, JsonNode node) {
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
    read();
    long timeUs = Long.parseLong(time.toString());
    UTF8String found = first;
    for (JsonNode rule : known.values()) {
      if (rule.path("activates_at_us").asLong(Long.MAX_VALUE) <= timeUs) {
        found = UTF8String.fromString(rule.toString());
      }
    }
    return found;
  }

  private void read() {
    TreeMap<Integer, JsonNode> there = new TreeMap<>();
    try (Stream<Path> entries = Files.list(Paths.get(folder))) {
      entries
          .filter(file -> file.getFileName().toString().matches("[0-9]{8,9}\\.rule"))
          .forEach(file -> add(there, file));
    } catch (NoSuchFileException e) {
      // No rule was published yet.
    } catch (IOException e) {
      throw TableError.inaccessible("list the rules", folder, e);
    } catch (UncheckedIOException e) {
      throw TableError.inaccessible("read a rule", folder, e.getCause());
    }
    known = there;
  }

  /** Add a rule; one that is damaged or gone is passed over: the rows go by an older one. */
  private void add(TreeMap<Integer, JsonNode> there, Path file) {
    String name = file.getFileName().toString();
    int number = Integer.parseInt(name.substring(0, name.indexOf('.')));
    JsonNode before = known == null ? null : known.get(number);
    try {
      there.put(number, before == null ? load(file, number) : before);
    } catch (NoSuchFileException | IllegalArgumentException e) {
      there.remove(number);
    } catch (IOException e) {
      throw new UncheckedIOException(e);
    }
  }

  private JsonNode load(Path file, int number) throws IOException {
    if (Files.size(file) > LARGEST) {
      throw new IllegalArgumentException("it is too large");
    }
    String text = new String(Files.readAllBytes(file), StandardCharsets.UTF_8);
    ObjectMapper json = new ObjectMapper();
    JsonNode read;
    JsonNode rule;
    try {
      read = json.readTree(text);
      rule = json.readTree(read.path("rule").asText());
    } catch (IOException e) {
      throw new IllegalArgumentException(e);
    }
    Router.of(read.path("rule").asText());
    boolean right = rule.path("version").asInt() == number && read.path("capacity").asInt() > 0;
    if (!right || rule.path("partitions").asInt() != partitions) {
      throw new IllegalArgumentException("it is the rule of others");
    }
    return read;
  }
}
