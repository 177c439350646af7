package bsjoin.jvm;

import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.math.BigDecimal;
import java.math.BigInteger;
import java.math.RoundingMode;
import java.util.ArrayList;
import java.util.Collections;
import java.util.List;
import org.apache.spark.sql.catalyst.expressions.AttributeSet;
import org.apache.spark.sql.catalyst.expressions.Expression;
import org.apache.spark.sql.catalyst.expressions.IsNotNull;
import org.apache.spark.sql.catalyst.expressions.Literal;
import org.apache.spark.sql.types.BooleanType;
import org.apache.spark.sql.types.DataType;
import org.apache.spark.sql.types.DateType;
import org.apache.spark.sql.types.DayTimeIntervalType;
import org.apache.spark.sql.types.Decimal;
import org.apache.spark.sql.types.DecimalType;
import org.apache.spark.sql.types.DoubleType;
import org.apache.spark.sql.types.FloatType;
import org.apache.spark.sql.types.IntegralType;
import org.apache.spark.sql.types.NullType;
import org.apache.spark.sql.types.NumericType;
import org.apache.spark.sql.types.StringType;
import org.apache.spark.sql.types.TimestampNTZType;
import org.apache.spark.sql.types.TimestampType;

/**
 * A call of {@link AsOf} in the condition of a join that the index answers, with the meaning of
 * {@code bsjoin.AsOf}.
 */
final class AsOfCondition {
  private static final ObjectMapper JSON = new ObjectMapper();
  private static final BigInteger FAR = BigInteger.ONE.shiftLeft(64);
  private static final BigDecimal DAY = BigDecimal.valueOf(86_400_000_000L); // microseconds

  private final IndexJoin join;
  private final Expression whole;
  private final List<Expression> call;

  private AsOfCondition(IndexJoin join, Expression whole) {
    this.join = join;
    this.whole = whole;
    call = AsOf.arguments(whole);
  }

  /** Whether a join has such a condition. */
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
      } else if (!isOfPoint(one, join) && !(isCall && new AsOfCondition(join, one).isInferred())) {
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

  /** Whether a condition is that the point is not null: in the index it never is. */
  private static boolean isOfPoint(Expression condition, IndexJoin join) {
    return condition instanceof IsNotNull && join.manifest.rangeColumns > 0
        && join.manifest.rangeNames.get(0)
            .equals(join.column(((IsNotNull) condition).child()));
  }

  private Search search(List<Expression> residual) {
    Manifest manifest = join.manifest;
    if (manifest.rangeColumns != 1 || !manifest.hasRangeCodes()) {
      throw unfit(
          manifest.rangeColumns == 1
              ? "its column " + manifest.rangeNames.get(0) + " of type "
                  + manifest.rangeTypes.get(0).simpleString() + " is not searched in the JVM. Use "
                  + "bsjoin.join"
              : "it is not sorted by one column. Build it with when=AsOf(...)");
    }
    Expression stream = call.get(0);
    String column = join.column(call.get(1));
    if (!manifest.rangeNames.get(0).equals(column)) {
      throw unfit(
          "its second argument is " + call.get(1).sql() + ", and the table is sorted by "
              + manifest.rangeNames.get(0) + ". Give that column");
    }
    if (!stream.references().subsetOf(join.stream.outputSet())) {
      throw unfit("its first argument is " + stream.sql() + ". Give a value of the other side");
    }
    DataType codes = manifest.rangeTypes.get(0);
    DataType given = stream.dataType();
    int scale = Math.max(MovedColumn.scale(codes), MovedColumn.scale(given));
    check(stream, given, codes, scale);
    CodeBound identity = new CodeBound(true, false, BigDecimal.ZERO, scale, 0, false, false, false);
    ObjectNode how = how(codes, scale);
    return new Search(
        new NearestFinder(join, how),
        Collections.singletonList(new Bound(stream, identity, true)),
        residual,
        Collections.singletonList(whole));
  }

  private void check(Expression stream, DataType given, DataType codes, int scale) {
    String pair =
        "it compares " + stream.sql() + " (" + given.simpleString() + ") with "
            + join.manifest.rangeNames.get(0) + " (" + codes.simpleString() + ")";
    if (!family(given).equals(family(codes))) {
      throw unfit(pair + ", which are not of one family. Cast one side");
    }
    // All values are searched in units of the last digit that either side has, as 64 bits.
    boolean isMixed = given instanceof DecimalType || codes instanceof DecimalType;
    if (isMixed && MovedColumn.digits(given) + scale > Decimal.MAX_LONG_DIGITS()) {
      throw unfit(pair + ", which needs more than 18 digits. Cast the former to fewer digits");
    }
  }

  private static String family(DataType type) {
    if (type instanceof IntegralType || type instanceof DecimalType) {
      return "exact number";
    }
    return type instanceof FloatType || type instanceof DoubleType
        ? "floating-point number"
        : type.typeName();
  }

  private ObjectNode how(DataType codes, int scale) {
    String direction = "backward";
    if (call.size() > 2) {
      Object value = literal(2, "the direction", "'backward', 'forward' or 'nearest'");
      direction = String.valueOf(value);
      if (!(call.get(2).dataType() instanceof StringType)
          || !direction.matches("backward|forward|nearest")) {
        throw unfit("its direction is " + value + ". Give 'backward', 'forward' or 'nearest'");
      }
    }
    Object exact = call.size() > 4 ? literal(4, "the last argument", "true or false") : true;
    if (call.size() > 4 && !(call.get(4).dataType() instanceof BooleanType) || exact == null) {
      throw unfit("its last argument is " + exact + ". Give true or false");
    }
    long unit = BigInteger.TEN.pow(scale - MovedColumn.scale(codes)).longValueExact();
    boolean floating = codes instanceof DoubleType;
    ObjectNode how = JSON.createObjectNode();
    how.put("direction", direction).put("exact", (Boolean) exact).put("floating", floating);
    how.put("unit", unit);
    Object tolerance =
        call.size() > 3 ? literal(3, "the tolerance", "an interval or a number, or NULL") : null;
    if (tolerance != null && floating) {
      double width = number(tolerance).doubleValue();
      how.putObject("before").put("bits", Double.doubleToRawLongBits(-width));
      how.putObject("after").put("bits", Double.doubleToRawLongBits(width));
    } else if (tolerance != null) {
      BigDecimal width = width(tolerance, codes).scaleByPowerOfTen(scale);
      width(how.putObject("before"), width.negate(), unit);
      width(how.putObject("after"), width, unit);
    }
    return how;
  }

  private Object literal(int place, String what, String wanted) {
    Expression argument = call.get(place);
    if (argument instanceof Literal) {
      return ((Literal) argument).value();
    }
    throw unfit(what + " is " + argument.sql() + ". Give a constant: " + wanted);
  }

  /** The tolerance in the units of the column: microseconds, days, or ones. */
  private BigDecimal width(Object value, DataType codes) {
    DataType type = call.get(3).dataType();
    boolean isTime = codes instanceof TimestampType || codes instanceof TimestampNTZType;
    BigDecimal micros = null;
    if (type instanceof DayTimeIntervalType) {
      micros = BigDecimal.valueOf((Long) value);
    } else if (isTime) {
      micros = number(value).scaleByPowerOfTen(6); // seconds
    }
    if (isTime && micros.stripTrailingZeros().scale() <= 0) {
      return notNegative(micros, value);
    }
    if (codes instanceof DateType) {
      boolean isWhole = micros != null && micros.remainder(DAY).signum() == 0;
      if (isWhole || micros == null && number(value).signum() == 0) {
        return notNegative(isWhole ? micros.divide(DAY) : BigDecimal.ZERO, value);
      }
      throw unfit("its tolerance is " + value + " and the columns are dates. Give whole days");
    }
    if (isTime || micros != null) {
      throw unfit(
          "its tolerance is " + call.get(3).sql() + " and the columns are " + codes.simpleString()
              + (isTime
                  ? ", which have whole microseconds, and a number means seconds"
                  : ". Give a number"));
    }
    return notNegative(number(value), value);
  }

  private BigDecimal notNegative(BigDecimal width, Object value) {
    if (width.signum() < 0) {
      throw unfit("its tolerance is " + value + ". It must not be negative");
    }
    return width;
  }

  private BigDecimal number(Object value) {
    DataType type = call.get(3).dataType();
    if (!(type instanceof NumericType) && !(type instanceof NullType)) {
      throw unfit(
          "its tolerance is " + call.get(3).sql() + " of type " + type.simpleString()
              + ". Give an interval for times, a number for numbers");
    }
    if (value instanceof Decimal) {
      return notNegative(((Decimal) value).toJavaBigDecimal(), value);
    }
    try {
      // A floating-point number means its shortest decimal text.
      return notNegative(new BigDecimal(value.toString()), value);
    } catch (NumberFormatException e) {
      throw unfit("its tolerance is " + value + ". Give a finite number, or NULL for no limit");
    }
  }

  /** By how much a point is moved, as {@link Width} reads it. */
  private static void width(ObjectNode node, BigDecimal size, long unit) {
    BigInteger units = size.setScale(0, RoundingMode.FLOOR).toBigInteger();
    BigInteger[] parts = units.divideAndRemainder(BigInteger.valueOf(unit));
    if (parts[1].signum() < 0) {
      parts[0] = parts[0].subtract(BigInteger.ONE);
      parts[1] = parts[1].add(BigInteger.valueOf(unit));
    }
    node.put("step", parts[0].min(FAR).max(FAR.negate()));
    node.put("rest", parts[1].longValueExact());
    node.put("further", size.compareTo(new BigDecimal(units)) != 0);
  }

  private IllegalArgumentException unfit(String reason) {
    return new IllegalArgumentException(
        "bsjoin.errors.ArgumentError: bsjoin.as_of(...) with the table in '" + join.stored.path
            + "': " + reason);
  }
}
