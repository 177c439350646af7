package bsjoin.jvm;

import com.fasterxml.jackson.databind.JsonNode;
import org.apache.spark.sql.types.DataType;

/** A function that begins with the reference of a row that another one has found, or a negative. */
abstract class OfReference<R> extends Function<R> {
  private transient Version version;

  OfReference(String spec, JsonNode node, DataType result, DataType... inputs) {
    super(spec, node, result, inputs);
  }

  /** The segment of a reference. */
  final Segment segment(long reference) {
    Version found = version;
    if (found == null || !found.holds(reference)) {
      version = found = table().of(reference);
    }
    return found.segment(reference);
  }
}
