package bsjoin.jvm;

import com.fasterxml.jackson.databind.JsonNode;
import org.apache.spark.sql.types.DataTypes;
import org.apache.spark.unsafe.types.UTF8String;

/**
 * In real-time mode: the time that chooses a row's version, see {@link BatchTime}.
 *
 * <p>A batch of that mode runs for minutes, so its timestamp would hide every refresh from it. The
 * function is evaluated once for each row, below all that depends on it, so that a row is answered
 * from one version.
 */
public final class Now extends Function<UTF8String> {
  private transient Follower follower;

  Now(String spec, JsonNode node) {
    super(spec, node, DataTypes.StringType);
  }

  @Override
  public String name() {
    return "bsjoin_now";
  }

  @Override
  public boolean isDeterministic() {
    return false;
  }

  public UTF8String invoke() {
    Follower found = follower;
    if (found == null) {
      follower = found = table().follower();
    }
    return found.time();
  }
}
