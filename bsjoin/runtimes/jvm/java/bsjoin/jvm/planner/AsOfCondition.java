package bsjoin.jvm.planner;

import bsjoin.jvm.storage.Manifest;
import bsjoin.jvm.storage.Types;
import java.math.BigDecimal;
import java.util.ArrayList;
import java.util.List;
import java.util.stream.Stream;
import org.apache.spark.sql.catalyst.expressions.AttributeSet;
import org.apache.spark.sql.catalyst.expressions.Expression;
import org.apache.spark.sql.catalyst.expressions.Literal;
import org.apache.spark.sql.catalyst.expressions.Literal$;
import org.apache.spark.sql.types.BinaryType;
import org.apache.spark.sql.types.DataType;
import org.apache.spark.sql.types.DateType;
import org.apache.spark.sql.types.DayTimeIntervalType;
import org.apache.spark.sql.types.DecimalType;
import org.apache.spark.sql.types.IntegralType;
import org.apache.spark.sql.types.NumericType;
import org.apache.spark.sql.types.StringType;

/**
 * A call of {@link AsOf} in the condition of a join that the index answers, with the meaning of
 * {@code bsjoin.AsOf}.
 */
public final class AsOfCondition {
  private static final BigDecimal DAY = BigDecimal.valueOf(86_400_000_000L); // microseconds

  private static final List<Expression> DEFAULTS = // of the last four arguments
      Stream.of("backward", null, true, 1).<Expression>map(Literal$.MODULE$::apply).toList();

  private final IndexJoin join;
  private final Expression whole;
  private final List<Expression> call;

  private AsOfCondition(IndexJoin join, Expression whole) {
    this.join = join;
    this.whole = whole;
    call = new ArrayList<>(AsOf.arguments(whole));
    call.addAll(DEFAULTS.subList(call.size() - 2, DEFAULTS.size()));
  }

  static boolean isIn(IndexJoin join) {
    return join.residual.stream().anyMatch(one -> AsOf.arguments(one) != null);
  }

  /**
   * How the rows of a join with such a condition are found; null if it is about the other side's
   * column.
   *
   * @throws IllegalArgumentException the table's index or its types do not suit the call
   */
  static Search of(IndexJoin join) {
    AsOfCondition found = null;
    List<Expression> residual = new ArrayList<>();
    for (Expression one : join.residual) {
      boolean isCall = AsOf.arguments(one) != null;
      if (isCall && (found == null || found.isInferred())) {
        found = new AsOfCondition(join, one);
      } else if (!join.isPointKnown(one)
          && !(isCall && new AsOfCondition(join, one).isInferred())) {
        residual.add(one);
      }
    }
    return join.isOfStream(found.call.get(1)) ? null : found.search(residual);
  }

  /**
   * Whether Spark has inferred the call from another one, whose value is a key of the stream: it has
   * the equal key of the table in its place.
   */
  private boolean isInferred() {
    AttributeSet references = call.get(0).references();
    return references.nonEmpty() && !references.subsetOf(join.stream.outputSet());
  }

  private Search search(List<Expression> residual) {
    Manifest manifest = join.manifest;
    if (manifest.rangeColumns != 1) {
      throw unfit("it is not sorted by one column. Build it with when=AsOf(...)");
    }
    Expression stream = call.get(0);
    String name = manifest.range.names().get(0);
    DataType codes = manifest.range.type();
    if (!name.equals(join.column(call.get(1)))) {
      throw unfit(
          "its second argument is " + call.get(1).sql() + ", and the table is sorted by " + name
              + ". Give that column");
    }
    if (!stream.references().subsetOf(join.stream.outputSet())) {
      throw unfit("its first argument is " + stream.sql() + ". Give a value of the other side");
    }
    check(stream.dataType(), codes, name);
    String directions = "'backward', 'forward' or 'nearest'";
    String direction = String.valueOf(literal(2, "the direction", directions));
    if (!(call.get(2).dataType() instanceof StringType)
        || !direction.matches("backward|forward|nearest")) {
      throw unfit("its direction is " + direction + ". Give " + directions);
    }
    Object exact = literal(4, "the fifth argument", "true or false");
    if (!(exact instanceof Boolean)) {
      throw unfit("its fifth argument is " + exact + ". Give true or false");
    }
    Object most = literal(5, "the sixth argument", "how many rows match");
    boolean isWhole = call.get(5).dataType() instanceof IntegralType;
    long n = isWhole && most != null ? ((Number) most).longValue() : 0;
    if (n < 1 || n > Integer.MAX_VALUE) {
      throw unfit(
          "its sixth argument is " + most + ". Give how many rows match, 1 to "
              + Integer.MAX_VALUE);
    }
    Object tolerance = literal(3, "the tolerance", "an interval or a number, or NULL");
    boolean isText = codes instanceof StringType || codes instanceof BinaryType;
    if (isText && (tolerance != null || direction.equals("nearest"))) {
      throw unfit(
          "its columns are " + codes.simpleString() + ", which has an order but no distances. Give "
              + "'backward' or 'forward', without a tolerance");
    }
    Number width = tolerance == null ? null : width(tolerance, codes);
    if (width != null && Types.isFloating(codes)) {
      width = width.doubleValue();
    }
    return RangeLookup.nearest(
        join, stream, direction, (Boolean) exact, width, (int) n, residual, List.of(whole));
  }

  private void check(DataType given, DataType codes, String column) {
    String pair =
        "it compares " + call.get(0).sql() + " (" + given.simpleString() + ") with " + column + " ("
            + codes.simpleString() + ")";
    if (!family(given).equals(family(codes))) {
      throw unfit(pair + ", which are not of one family. Cast one side");
    }
    // All values are searched in units of the last digit that either side has.
    boolean isMixed = given instanceof DecimalType || codes instanceof DecimalType;
    int scale = Math.max(Types.scale(codes), Types.scale(given));
    if (isMixed && Types.digits(given) + scale > DecimalType.MAX_PRECISION()) {
      throw unfit(
          pair + ", which needs more than " + DecimalType.MAX_PRECISION()
              + " digits. Cast the former to fewer digits");
    }
  }

  private static String family(DataType type) {
    if (type instanceof IntegralType || type instanceof DecimalType) {
      return "exact number";
    }
    return Types.isFloating(type) ? "floating-point number" : type.typeName();
  }

  private Object literal(int place, String what, String wanted) {
    Expression argument = call.get(place);
    if (argument instanceof Literal found) {
      return found.value();
    }
    throw unfit(what + " is " + argument.sql() + ". Give a constant: " + wanted);
  }

  /** The tolerance in the units of the column: microseconds, days, or ones. */
  private BigDecimal width(Object value, DataType codes) {
    boolean isInterval = call.get(3).dataType() instanceof DayTimeIntervalType;
    BigDecimal size = isInterval ? BigDecimal.valueOf((Long) value) : number(value);
    if (size.signum() < 0) {
      throw unfit("its tolerance is " + value + ". It must not be negative");
    }
    if (codes instanceof DateType) {
      if (isInterval ? size.remainder(DAY).signum() != 0 : size.signum() != 0) {
        throw unfit("its tolerance is " + value + " and the columns are dates. Give whole days");
      }
      return isInterval ? size.divide(DAY) : size;
    }
    boolean isTime = Types.isTimestamp(codes);
    size = isTime && !isInterval ? size.scaleByPowerOfTen(6) : size; // seconds
    if (isTime ? size.stripTrailingZeros().scale() > 0 : isInterval) {
      throw unfit(
          "its tolerance is " + call.get(3).sql() + " and the columns are " + codes.simpleString()
              + (isTime
                  ? ", which have whole microseconds, and a number means seconds"
                  : ". Give a number"));
    }
    return size;
  }

  private BigDecimal number(Object value) {
    DataType type = call.get(3).dataType();
    if (!(type instanceof NumericType)) {
      throw unfit(
          "its tolerance is " + call.get(3).sql() + " of type " + type.simpleString()
              + ". Give an interval for times, a number for numbers");
    }
    try {
      // A floating-point number means its shortest decimal text.
      return new BigDecimal(value.toString());
    } catch (NumberFormatException e) {
      throw unfit("its tolerance is " + value + ". Give a finite number, or NULL for no limit");
    }
  }

  private IllegalArgumentException unfit(String reason) {
    return new IllegalArgumentException(
        "bsjoin.errors.ArgumentError: bsjoin.as_of(...) with the table in '" + join.scan.table.path
            + "': " + reason);
  }
}
