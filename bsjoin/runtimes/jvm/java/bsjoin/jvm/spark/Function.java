package bsjoin.jvm.spark;

import com.fasterxml.jackson.databind.JsonNode;
import java.io.Serializable;
import java.util.Arrays;
import org.apache.spark.sql.connector.catalog.functions.BoundFunction;
import org.apache.spark.sql.connector.catalog.functions.ScalarFunction;
import org.apache.spark.sql.connector.catalog.functions.UnboundFunction;
import org.apache.spark.sql.types.DataType;
import org.apache.spark.sql.types.StructField;
import org.apache.spark.sql.types.StructType;

/**
 * What all functions have in common; a function is its own bound form.
 *
 * <p>Spark calls the method {@code invoke}, which every class declares itself: an inherited one is
 * not found. Functions travel to the executors with the tasks; what they have open does not.
 *
 * <p>One that is evaluated {@code once} is not deterministic to Spark, which then neither moves it
 * nor keeps the constraint that its column equals its expression. Spark doubles such a constraint
 * for each column in it that a later projection renames: of an expression with 20 columns that makes
 * a million.
 */
public abstract class Function<R> implements UnboundFunction, ScalarFunction<R>, Serializable {
  private final String spec;
  private final DataType[] inputs; // known where plans are made: tasks call the method
  private final DataType result;
  private final boolean once;
  private final boolean counts;

  /** {@code spec} is its name in the catalog, a JSON object, and {@code node} the same, parsed. */
  public Function(String spec, JsonNode node, DataType result, DataType... inputs) {
    this.spec = spec;
    this.inputs = inputs;
    this.result = result;
    once = node.path("once").asBoolean(false);
    counts = false;
  }

  /** The same function, which counts: see {@link Counting}. */
  protected Function(Function<R> of) {
    spec = of.spec;
    inputs = of.inputs;
    result = of.result;
    once = of.once;
    counts = true;
  }

  @Override
  public BoundFunction bind(StructType given) {
    if (given.length() != inputs.length) {
      throw new UnsupportedOperationException(
          name() + " takes " + inputs.length + " arguments, not " + given.length());
    }
    return this;
  }

  /** The types of the arguments that a function is bound to. */
  protected static DataType[] types(StructType given) {
    return Arrays.stream(given.fields()).map(StructField::dataType).toArray(DataType[]::new);
  }

  @Override
  public DataType[] inputTypes() {
    return inputs;
  }

  @Override
  public DataType resultType() {
    return result;
  }

  @Override
  public boolean isResultNullable() {
    return false;
  }

  @Override
  public boolean isDeterministic() {
    return !once;
  }

  @Override
  public String description() {
    return spec;
  }

  @Override
  public String canonicalName() {
    return "bsjoin " + spec;
  }

  @Override
  public String toString() {
    return name();
  }

  // Equal functions do the same: Spark plans equal calls once, and may use what one has sent twice.

  @Override
  public boolean equals(Object other) {
    return other instanceof Function<?> that
        && that.getClass() == getClass()
        && that.counts == counts
        && that.spec.equals(spec)
        && Arrays.equals(that.inputs, inputs);
  }

  @Override
  public int hashCode() {
    return spec.hashCode();
  }
}
