package bsjoin.jvm;

import com.fasterxml.jackson.databind.JsonNode;
import org.apache.spark.sql.types.DataTypes;

/** How many rows have the key of a reference's row; 0 for a missing one. */
public final class Count extends Function<Integer> {
  private transient Version version;

  Count(String spec, JsonNode node) {
    super(spec, node, DataTypes.IntegerType, DataTypes.LongType);
  }

  @Override
  public String name() {
    return "bsjoin_count";
  }

  public int invoke(long reference) {
    if (reference < 0) {
      return 0;
    }
    Version found = version;
    if (found == null || !found.holds(reference)) {
      version = found = table().of(reference);
    }
    return found.segment(reference).count(Version.row(reference));
  }
}
