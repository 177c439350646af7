package bsjoin.jvm;

import com.fasterxml.jackson.databind.JsonNode;
import org.apache.spark.sql.types.DataType;
import org.apache.spark.sql.types.DataTypes;

/**
 * A function of a table in the version that a timestamp chooses, or that the plan is bound to.
 *
 * <p>A version is opened, and held against the plan, once per task and timestamp.
 */
abstract class ByTime<R> extends Function<R> {
  private final int bound; // the version that the plan is bound to; 0: by the timestamp
  private final boolean unique;
  private final DataType[] compared; // of the key columns that the plan compares
  private final String keys; // of the table that the plan was made for; empty if any will do
  private transient Choice choice;

  /** Both in one object: another thread sees both or neither. */
  private static final class Choice {
    final long timeUs;
    final Version version;

    Choice(long timeUs, Version version) {
      this.timeUs = timeUs;
      this.version = version;
    }
  }

  ByTime(String spec, JsonNode node, DataType[] compared, DataType... inputs) {
    super(spec, node, DataTypes.LongType, inputs);
    bound = node.path("version").asInt();
    unique = node.path("unique").asBoolean(false);
    this.compared = compared;
    keys = node.path("on").isMissingNode() ? "" : node.path("on").toString();
  }

  final Version version(long timeUs) {
    Choice last = choice;
    if (last == null || last.timeUs != timeUs && bound == 0) {
      Version found = bound == 0 ? table().at(timeUs) : table().numbered(bound);
      if (last == null || last.version != found) {
        check(found);
      }
      choice = last = new Choice(timeUs, found);
    }
    return last.version;
  }

  private void check(Version version) {
    if (unique && version.manifest.longestRun > 1) {
      throw unfit(
          "DuplicateKeyError",
          version,
          "has keys with up to " + version.manifest.longestRun
              + " rows, and this query was planned when the table was declared unique");
    }
    DataType[] stored = version.manifest.compared;
    boolean same = compared == null || stored.length == compared.length;
    for (int i = 0; same && compared != null && i < compared.length; i++) {
      same = stored[i].equals(compared[i]);
    }
    if (!same || !keys.isEmpty() && !keys.equals(version.manifest.keys)) {
      throw unfit(
          "OtherKeysError",
          version,
          "has the keys " + version.manifest.keys + ", and this query was planned for " + keys);
    }
  }
}
