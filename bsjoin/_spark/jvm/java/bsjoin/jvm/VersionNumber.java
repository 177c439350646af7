package bsjoin.jvm;

import com.fasterxml.jackson.databind.JsonNode;
import org.apache.spark.sql.types.DataTypes;
import org.apache.spark.unsafe.types.UTF8String;

/**
 * The number of the version that answers at a time, for the figures of a join; it opens none.
 *
 * <p>It is said once in a task, and again where it changes; in all other rows it is null, so it costs
 * them next to nothing.
 */
public final class VersionNumber extends Function<Integer> {
  private transient Known known;

  /** Both in one object: another thread sees both or neither. */
  private static final class Known {
    final UTF8String time;
    final int number;

    Known(UTF8String time, int number) {
      this.time = time;
      this.number = number;
    }
  }

  VersionNumber(String spec, JsonNode node) {
    super(spec, node, DataTypes.IntegerType, DataTypes.StringType);
  }

  @Override
  public String name() {
    return "bsjoin_version";
  }

  @Override
  public boolean isDeterministic() {
    return false;
  }

  @Override
  public boolean isResultNullable() {
    return true;
  }

  public Integer invoke(UTF8String time) {
    Known last = known;
    if (last != null && last.time.equals(time)) {
      return null;
    }
    int number = table().numberAt(Long.parseLong(time.toString()));
    known = new Known(time.clone(), number);
    return last != null && last.number == number ? null : number;
  }
}
