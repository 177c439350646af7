package bsjoin.jvm;

import com.fasterxml.jackson.databind.JsonNode;
import org.apache.spark.sql.types.DataTypes;

/** How many rows have the key of a reference's row; 0 for a missing one. */
public final class Count extends OfReference<Integer> {
  Count(String spec, JsonNode node) {
    super(spec, node, DataTypes.IntegerType, DataTypes.LongType);
  }

  @Override
  public String name() {
    return "bsjoin_count";
  }

  public int invoke(long reference) {
    return reference < 0 ? 0 : segment(reference).count(Version.row(reference));
  }
}
