package bsjoin.jvm;

import com.fasterxml.jackson.databind.JsonNode;
import java.util.Arrays;
import org.apache.spark.sql.catalyst.expressions.UnsafeArrayData;
import org.apache.spark.sql.catalyst.util.ArrayData;
import org.apache.spark.sql.types.DataType;
import org.apache.spark.sql.types.DataTypes;

/**
 * The rows of a key whose intervals begin early enough and end late enough.
 *
 * <p>All functions get the greatest start and the least last point after the reference, as codes.
 * The matches of one row of the stream may be very many: {@link Pieces} tells which pieces of the
 * rows have any, {@link Rows} those of one piece, and no array has all of them.
 */
public abstract class InIntervals<R> extends OfReference<R> {
  private static final int PIECE = 1 << 12; // rows

  InIntervals(String spec, JsonNode node, DataType result) {
    super(spec, node, result, DataTypes.LongType, DataTypes.LongType, DataTypes.LongType);
  }

  private static DataType references() {
    return DataTypes.createArrayType(DataTypes.LongType, false);
  }

  /** One past the last row of a match's key that begins early enough. */
  final int stop(Segment segment, int match, long greatest) {
    return segment.points().aboveFrom(greatest, match, segment.end(match));
  }

  /** The first row of the next piece. */
  static int afterPiece(int row) {
    return Math.min(row | PIECE - 1, Integer.MAX_VALUE - 1) + 1;
  }

  /** References, added one by one. */
  static final class References {
    private final long segment; // what they have before the row
    private long[] found = new long[16];
    private int size;

    References(long reference) {
      segment = reference - Version.row(reference);
    }

    void add(int row) {
      if (size == found.length) {
        found = Arrays.copyOf(found, 2 * size);
      }
      found[size++] = segment + row;
    }

    ArrayData all() {
      return UnsafeArrayData.fromPrimitiveArray(Arrays.copyOf(found, size));
    }
  }

  /** From the reference of a key's first row to that of the first match. */
  public static final class First extends InIntervals<Long> {
    First(String spec, JsonNode node) {
      super(spec, node, DataTypes.LongType);
    }

    @Override
    public String name() {
      return "bsjoin_interval";
    }

    public long invoke(long reference, long greatest, long least) {
      if (reference < 0) {
        return Version.MISSING;
      }
      Segment segment = segment(reference);
      int low = Version.row(reference);
      int stop = segment.points().above(greatest, low, segment.end(low));
      int row = segment.intervals().next(low, stop, least);
      return row < 0 ? Version.MISSING : reference + (row - low);
    }
  }

  /** How many matches there are, the first one included; 0 for a missing one. */
  public static final class Count extends InIntervals<Integer> {
    Count(String spec, JsonNode node) {
      super(spec, node, DataTypes.IntegerType);
    }

    @Override
    public String name() {
      return "bsjoin_interval_count";
    }

    public int invoke(long reference, long greatest, long least) {
      int count = 0;
      if (reference >= 0) {
        Segment segment = segment(reference);
        Intervals intervals = segment.intervals();
        int row = Version.row(reference);
        int stop = stop(segment, row, greatest);
        for (; row >= 0; row = intervals.next(row + 1, stop, least)) {
          count++;
        }
      }
      return count;
    }
  }

  /** The first matches of all pieces that have one, from the first match on. */
  public static final class Pieces extends InIntervals<ArrayData> {
    Pieces(String spec, JsonNode node) {
      super(spec, node, references());
    }

    @Override
    public String name() {
      return "bsjoin_interval_pieces";
    }

    public ArrayData invoke(long reference, long greatest, long least) {
      References found = new References(reference);
      Segment segment = segment(reference);
      Intervals intervals = segment.intervals();
      int row = Version.row(reference);
      int stop = stop(segment, row, greatest);
      for (; row >= 0; row = intervals.next(afterPiece(row), stop, least)) {
        found.add(row);
      }
      return found.all();
    }
  }

  /** All matches of a piece, from its first match on. */
  public static final class Rows extends InIntervals<ArrayData> {
    Rows(String spec, JsonNode node) {
      super(spec, node, references());
    }

    @Override
    public String name() {
      return "bsjoin_interval_rows";
    }

    public ArrayData invoke(long reference, long greatest, long least) {
      References found = new References(reference);
      Segment segment = segment(reference);
      Intervals intervals = segment.intervals();
      int row = Version.row(reference);
      int stop = Math.min(afterPiece(row), stop(segment, row, greatest));
      for (; row >= 0; row = intervals.next(row + 1, stop, least)) {
        found.add(row);
      }
      return found.all();
    }
  }
}
