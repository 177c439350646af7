package bsjoin.jvm;

import com.fasterxml.jackson.databind.JsonNode;
import org.apache.spark.sql.catalyst.InternalRow;

/** Finds the row of a key whose point is the nearest one to a value. */
public final class NearestFinder extends Finder {
  private final NearestRow nearest;

  NearestFinder(IndexJoin join, JsonNode how) {
    super(join, how.toString());
    nearest = new NearestRow(how);
  }

  @Override
  boolean isUnique() {
    return true;
  }

  /**
   * The row.
   *
   * @param search the key
   * @param point the value, in units of its last digit
   */
  public long first(long search, long point) {
    long found = firstOfKey(search);
    if (found < 0) {
      return NONE;
    }
    Segment segment = version().segment(found);
    int low = Version.row(found);
    int row = nearest.find(segment.points(), low, segment.end(low), point);
    return row < 0 ? NONE : found + (row - low);
  }

  @Override
  long first(InternalRow arguments) {
    return first(arguments.getLong(0), argument(arguments, 0));
  }
}
