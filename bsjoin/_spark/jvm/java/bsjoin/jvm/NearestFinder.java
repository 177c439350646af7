package bsjoin.jvm;

import com.fasterxml.jackson.databind.JsonNode;
import org.apache.spark.sql.catalyst.InternalRow;

/** Finds the row of a key whose point is the nearest one to a value. */
public final class NearestFinder extends Finder {
  private final NearestRow nearest;
  private final String how; // the same as JSON, to be compared

  NearestFinder(IndexJoin join, JsonNode how) {
    super(join);
    nearest = new NearestRow(how);
    this.how = how.toString();
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

  @Override
  public boolean equals(Object other) {
    return super.equals(other) && how.equals(((NearestFinder) other).how);
  }

  @Override
  public int hashCode() {
    return super.hashCode() + how.hashCode();
  }
}
