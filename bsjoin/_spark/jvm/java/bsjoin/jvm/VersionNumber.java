package bsjoin.jvm;

import com.fasterxml.jackson.databind.JsonNode;
import org.apache.spark.sql.types.DataTypes;
import org.apache.spark.unsafe.types.UTF8String;

/** The number of the version that answers at a time, for the figures of a join. */
public final class VersionNumber extends ByTime<Long> {
  VersionNumber(String spec, JsonNode node) {
    super(spec, node, null, DataTypes.StringType);
  }

  @Override
  public String name() {
    return "bsjoin_version";
  }

  public long invoke(UTF8String time) {
    return version(time).manifest.version;
  }
}
