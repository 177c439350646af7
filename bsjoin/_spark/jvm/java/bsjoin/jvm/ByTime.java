package bsjoin.jvm;

import com.fasterxml.jackson.databind.JsonNode;
import org.apache.spark.sql.types.DataType;
import org.apache.spark.sql.types.DataTypes;
import org.apache.spark.unsafe.types.UTF8String;

/**
 * A function of a table in the version that a time chooses, or that the plan is bound to.
 *
 * <p>A time is a text, see {@link BatchTime}: microseconds since the epoch. A version is opened, and
 * held against the plan, once per task and time.
 */
abstract class ByTime<R> extends Function<R> {
  private final int bound; // the version that the plan is bound to; 0: by the timestamp
  private final boolean unique;
  private final DataType[] compared; // of the key columns that the plan compares
  private final String keys; // of the table that the plan was made for; empty if any will do
  private final String ranged; // the range columns of that table; empty if any will do
  private transient Choice choice;

  /** All in one object: another thread sees all of it or nothing. */
  private static final class Choice {
    final UTF8String given; // the object, which is the same for all rows where it is a constant
    final UTF8String time; // a copy: the object may be part of a row whose memory is used again
    final Version version;

    Choice(UTF8String given, Version version) {
      this.given = given;
      this.time = given.clone();
      this.version = version;
    }
  }

  ByTime(String spec, JsonNode node, DataType[] compared, DataType... inputs) {
    super(spec, node, DataTypes.LongType, inputs);
    bound = node.path("version").asInt();
    unique = node.path("unique").asBoolean(false);
    this.compared = compared;
    keys = node.path("on").isMissingNode() ? "" : node.path("on").toString();
    ranged = node.path("ranged").isMissingNode() ? "" : node.path("ranged").toString();
  }

  final Version version(UTF8String time) {
    Choice last = choice;
    return last != null && last.given == time ? last.version : choose(last, time);
  }

  private Version choose(Choice last, UTF8String time) {
    if (last != null && last.time.equals(time)) {
      return last.version;
    }
    Version found =
        bound == 0 ? table().at(Long.parseLong(time.toString())) : table().numbered(bound);
    if (last == null || last.version != found) {
      check(found);
    }
    choice = new Choice(time, found);
    return found;
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
    if (!ranged.isEmpty() && !ranged.equals(version.manifest.ranged)) {
      throw unfit(
          "OtherKeysError",
          version,
          "has the range columns " + version.manifest.ranged
              + ", and this query was planned for " + ranged);
    }
  }
}
