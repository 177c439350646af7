package bsjoin.jvm.storage;

import org.apache.spark.sql.catalyst.expressions.Cast;
import org.apache.spark.sql.catalyst.expressions.EqualTo;
import org.apache.spark.sql.catalyst.expressions.EvalMode$;
import org.apache.spark.sql.catalyst.expressions.Expression;
import org.apache.spark.sql.catalyst.expressions.If;
import org.apache.spark.sql.catalyst.expressions.KnownFloatingPointNormalized;
import org.apache.spark.sql.catalyst.expressions.Literal;
import org.apache.spark.sql.catalyst.optimizer.NormalizeNaNAndZero;
import org.apache.spark.sql.types.DataType;
import org.apache.spark.sql.types.DataTypes;
import org.apache.spark.sql.types.DecimalType;
import org.apache.spark.sql.types.IntegralType;
import org.apache.spark.sql.types.StringType;
import scala.Option;

/**
 * How a key is compared with the stored keys, which are in their canonical form: integers as longs,
 * floating-point numbers as doubles, the others as they are; see {@code bsjoin/planner/keys.py}.
 *
 * <p>Texts with a collation are compared by keys of their own: see {@link Collations}.
 *
 * <p>Spark brings both sides of an equality to one type. Where it casts the table's column, and the
 * cast loses nothing, the other side is brought to the column's type instead: a value that no value
 * of that type equals becomes null, which matches nothing.
 */
public final class KeyTypes {
  private KeyTypes() {}

  /** The column that the table's side of an equality is, without a cast that loses nothing. */
  public static Expression column(Expression stored) {
    Expression at = plain(Collations.column(stored));
    return at instanceof Cast cast && Types.isWider(cast.dataType(), cast.child().dataType())
        ? plain(cast.child())
        : at;
  }

  /** Without the normal form of NaN and zero, which the hash has anyway. */
  private static Expression plain(Expression key) {
    Expression at = key;
    while (at instanceof KnownFloatingPointNormalized || at instanceof NormalizeNaNAndZero) {
      at = at.children().head();
    }
    return at;
  }

  /**
   * What the stored keys are searched for.
   *
   * @param given the other side of the equality
   * @param type of the key's column
   * @return a value in the canonical form, or null for one that equals no key; null if these types
   *     do not compare exactly
   */
  public static Expression searched(Expression given, DataType type) {
    DataType from = given.dataType();
    if (Collations.has(type)) {
      return Collations.searched(given, type);
    }
    if (type instanceof IntegralType) {
      if (from instanceof IntegralType) {
        return cast(given, DataTypes.LongType);
      }
      return from instanceof DecimalType ? ifEqual(given, DataTypes.LongType) : null;
    }
    if (Types.isFloating(type)) {
      return Types.isFloating(from) ? cast(plain(given), DataTypes.DoubleType) : null; // hashed alike
    }
    if (from.equals(type) || from instanceof StringType && type instanceof StringType) {
      return given;
    }
    boolean isExact = from instanceof DecimalType || from instanceof IntegralType;
    return isExact && type instanceof DecimalType ? ifEqual(given, type) : null;
  }

  private static Expression ifEqual(Expression value, DataType type) {
    Expression converted = tried(value, type);
    return new If(
        new EqualTo(tried(converted, value.dataType()), value),
        converted,
        new Literal(null, type));
  }

  private static Expression tried(Expression value, DataType type) {
    return new Cast(value, type, Option.empty(), EvalMode$.MODULE$.TRY());
  }

  private static Expression cast(Expression value, DataType type) {
    return value.dataType().equals(type)
        ? value
        : new Cast(value, type, Option.empty(), EvalMode$.MODULE$.LEGACY());
  }
}
