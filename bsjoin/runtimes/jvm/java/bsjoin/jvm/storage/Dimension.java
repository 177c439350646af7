package bsjoin.jvm.storage;

import java.util.List;
import org.apache.spark.sql.types.DataType;

/**
 * One of the ranges that a table is searched by: of points, or of intervals.
 *
 * @param names of the column of points; or of those of starts and of ends
 * @param type in which they are searched
 * @param closed which ends belong to the intervals; empty for points
 */
public record Dimension(List<String> names, DataType type, String closed) {
  public boolean isInterval() {
    return !closed.isEmpty();
  }

  /** Whether the end of an interval is its last point. */
  public boolean isClosedRight() {
    return closed.equals("both") || closed.equals("right");
  }
}
