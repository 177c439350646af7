package bsjoin.jvm;

import com.fasterxml.jackson.databind.JsonNode;
import org.apache.spark.sql.types.DataTypes;

/**
 * As-of: from the reference of a key's first row, and the code of a point, to the reference of the
 * nearest row.
 */
public final class Nearest extends OfReference<Long> {
  private final NearestRow row;

  Nearest(String spec, JsonNode node) {
    super(spec, node, DataTypes.LongType, DataTypes.LongType, DataTypes.LongType);
    row = new NearestRow(node);
  }

  @Override
  public String name() {
    return "bsjoin_nearest";
  }

  public long invoke(long reference, long point) {
    if (reference < 0) {
      return Version.MISSING;
    }
    Segment segment = segment(reference);
    int low = Version.row(reference);
    int found = row.find(segment.points(), low, segment.end(low), point);
    return found < 0 ? Version.MISSING : reference + (found - low);
  }
}
