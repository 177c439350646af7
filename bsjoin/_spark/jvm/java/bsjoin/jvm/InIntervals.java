package bsjoin.jvm;

import com.fasterxml.jackson.databind.JsonNode;
import java.util.Arrays;
import org.apache.spark.sql.catalyst.InternalRow;
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
  private final boolean left;

  InIntervals(String spec, JsonNode node, DataType result) {
    super(spec, node, result, DataTypes.LongType, DataTypes.LongType, DataTypes.LongType);
    left = node.path("left").asBoolean();
  }

  /** One past the last row of a match's key that begins early enough. */
  final int stop(Segment segment, int match, long greatest) {
    return segment.points().aboveFrom(greatest, match, segment.end(match));
  }

  /** The first row of the next piece. */
  static int afterPiece(int row) {
    return Math.min(row | Run.PIECE - 1, Integer.MAX_VALUE - 1) + 1;
  }

  /** The references of rows of a segment, added in ascending order. */
  static final class Found {
    private final long segment; // what they have before the row
    private long[] rows = new long[16];
    private int size;

    Found(long reference) {
      segment = reference - Version.row(reference);
    }

    /** Add the rows from one on, up to another one. */
    void add(int row, int end) {
      int more = end - row;
      if (more > rows.length - size) {
        rows = Arrays.copyOf(rows, Math.max(2 * rows.length, size + more));
      }
      for (int i = 0; i < more; i++) {
        rows[size++] = segment + row + i;
      }
    }

    ArrayData references() {
      return References.of(rows, size);
    }
  }

  /** What a missing row becomes: a row of its own in a left join, else none. */
  final ArrayData missing(long reference) {
    return References.inSteps(reference, 1, left ? 1 : 0);
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
        while (row >= 0) {
          int end = intervals.endOfRun(row, stop, least);
          count += end - row;
          row = intervals.next(end, stop, least);
        }
      }
      return count;
    }
  }

  /**
   * The first matches of all pieces that have one, from the first match on. Not for generated code,
   * for the reason of {@link Run.Pieces}.
   */
  public static final class Pieces extends InIntervals<ArrayData> {
    Pieces(String spec, JsonNode node) {
      super(spec, node, References.TYPE);
    }

    @Override
    public String name() {
      return "bsjoin_interval_pieces";
    }

    @Override
    public ArrayData produceResult(InternalRow arguments) {
      long reference = arguments.getLong(0);
      if (reference < 0) {
        return missing(reference);
      }
      long least = arguments.getLong(2);
      Found found = new Found(reference);
      Segment segment = segment(reference);
      Intervals intervals = segment.intervals();
      int row = Version.row(reference);
      int stop = stop(segment, row, arguments.getLong(1));
      for (; row >= 0; row = intervals.next(afterPiece(row), stop, least)) {
        found.add(row, row + 1);
      }
      return found.references();
    }
  }

  /** All matches from the first one on; or those of its piece. */
  public static final class Rows extends InIntervals<ArrayData> {
    private final boolean inPieces;

    Rows(String spec, JsonNode node) {
      super(spec, node, References.TYPE);
      inPieces = node.path("pieces").asBoolean();
    }

    @Override
    public String name() {
      return "bsjoin_interval_rows";
    }

    public ArrayData invoke(long reference, long greatest, long least) {
      if (reference < 0) {
        return missing(reference);
      }
      Segment segment = segment(reference);
      Intervals intervals = segment.intervals();
      int row = Version.row(reference);
      int stop = stop(segment, row, greatest);
      if (inPieces) {
        stop = Math.min(afterPiece(row), stop);
      }
      int end = intervals.endOfRun(row, stop, least);
      int next = intervals.next(end, stop, least);
      if (next < 0) {
        return References.inSteps(reference, 1, end - row);
      }
      Found found = new Found(reference);
      found.add(row, end);
      while (next >= 0) {
        end = intervals.endOfRun(next, stop, least);
        found.add(next, end);
        next = intervals.next(end, stop, least);
      }
      return found.references();
    }
  }
}
