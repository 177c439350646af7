package bsjoin.jvm.planner;

import bsjoin.jvm.spark.Scala;
import java.util.List;
import java.util.function.UnaryOperator;
import org.apache.spark.sql.catalyst.expressions.Attribute;
import org.apache.spark.sql.catalyst.expressions.BitwiseOr;
import org.apache.spark.sql.catalyst.expressions.Coalesce;
import org.apache.spark.sql.catalyst.expressions.Expression;
import org.apache.spark.sql.catalyst.expressions.If;
import org.apache.spark.sql.catalyst.expressions.IsNotNull;
import org.apache.spark.sql.catalyst.expressions.IsNull;
import org.apache.spark.sql.catalyst.expressions.Literal;
import org.apache.spark.sql.catalyst.expressions.Or;
import org.apache.spark.sql.types.BinaryType;
import org.apache.spark.sql.types.DataType;
import org.apache.spark.sql.types.DataTypes;
import org.apache.spark.sql.types.Decimal;
import org.apache.spark.sql.types.DecimalType;
import org.apache.spark.unsafe.types.UTF8String;

/**
 * Null-safe keys: what the index has in the place of a null, and the number behind the keys whose
 * bits say which of them are null; see {@code bsjoin/planner/keys.py}.
 */
final class NullKeys {
  private NullKeys() {}

  /**
   * The number.
   *
   * @param keys what is searched, in the table's types
   * @param computed makes a column of a value that is used several times
   * @param known gets what is null where a key that is not null equals no key of the table
   */
  static Expression which(
      IndexJoin join, List<Expression> keys, UnaryOperator<Expression> computed,
      List<Expression> known) {
    Expression all = new Literal(0L, DataTypes.LongType);
    for (int i = 0; i < keys.size(); i++) {
      if (!join.nullSafe.contains(i) || !keys.get(i).nullable()) {
        continue;
      }
      Expression given = keys.get(i);
      if (join.keys.get(i) instanceof If) { // see KeyTypes
        Expression own = join.given.get(i);
        given = own instanceof Attribute ? own : computed.apply(own);
        known.add(
            new If(
                new Or(new IsNull(given), new IsNotNull(keys.get(i))),
                new Literal(0L, DataTypes.LongType),
                new Literal(null, DataTypes.LongType)));
      }
      Literal bit = new Literal(1L << i, DataTypes.LongType);
      Expression one = new If(new IsNull(given), bit, new Literal(0L, DataTypes.LongType));
      all = all instanceof Literal ? one : new BitwiseOr(all, one);
    }
    return all;
  }

  /** A key of more than 8 bytes as it is stored: with some value in the place of null. */
  static Expression stored(Expression key) {
    DataType type = key.dataType();
    Object some = UTF8String.EMPTY_UTF8;
    if (type instanceof DecimalType decimal) {
      some = Decimal.apply(java.math.BigDecimal.ZERO, decimal.precision(), decimal.scale());
    } else if (type instanceof BinaryType) {
      some = new byte[0];
    }
    return new Coalesce(Scala.seq(List.of(key, new Literal(some, type))));
  }
}
