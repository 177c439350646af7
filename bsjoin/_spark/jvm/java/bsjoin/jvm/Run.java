package bsjoin.jvm;

import com.fasterxml.jackson.databind.JsonNode;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.catalyst.util.ArrayData;
import org.apache.spark.sql.types.DataTypes;

/**
 * The references of rows that follow each other, from the first one and their number.
 *
 * <p>A missing row, which a left join keeps, is a run of its own.
 */
public abstract class Run extends Function<ArrayData> {
  static final int PIECE = 1 << 12; // rows

  Run(String spec, JsonNode node) {
    super(spec, node, References.TYPE, DataTypes.LongType, DataTypes.IntegerType);
  }

  /** All of them. */
  public static final class Whole extends Run {
    Whole(String spec, JsonNode node) {
      super(spec, node);
    }

    @Override
    public String name() {
      return "bsjoin_run";
    }

    public ArrayData invoke(long first, int count) {
      return References.inSteps(first, 1, count);
    }
  }

  /**
   * The first of each piece.
   *
   * <p>Not for generated code, which keeps all rows that it makes of one row until it has them all:
   * what this function is a part of ends a stage of generated code, and the next one gets the pieces
   * one by one.
   */
  public static final class Pieces extends Run {
    Pieces(String spec, JsonNode node) {
      super(spec, node);
    }

    @Override
    public String name() {
      return "bsjoin_run_pieces";
    }

    @Override
    public ArrayData produceResult(InternalRow arguments) {
      int count = arguments.getInt(1);
      int pieces = count / PIECE + (count % PIECE == 0 ? 0 : 1);
      return References.inSteps(arguments.getLong(0), PIECE, pieces);
    }
  }
}
