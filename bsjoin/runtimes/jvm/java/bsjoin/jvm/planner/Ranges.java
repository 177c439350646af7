package bsjoin.jvm.planner;

import bsjoin.jvm.lookup.BoxFinder;
import bsjoin.jvm.lookup.Finder;
import bsjoin.jvm.lookup.RangeFinder;
import bsjoin.jvm.storage.Dimension;
import java.util.ArrayList;
import java.util.List;
import org.apache.spark.sql.catalyst.expressions.Alias;
import org.apache.spark.sql.catalyst.expressions.Expression;

/**
 * Conditions on the range columns of a table, which its range index answers.
 *
 * <p>Of each range one bound below and one above the points, or the starts of intervals, are answered,
 * and one below the ends: of all ranges of its boxes, where all of them are bound, else of the first
 * range. A condition is dropped where the index finds exactly the rows that Spark would; else it is
 * checked for each row that is found.
 */
public final class Ranges {
  private final IndexJoin join;
  private final List<Alias> computed = new ArrayList<>();
  private final List<Expression> arguments = new ArrayList<>();
  private final List<Expression> residual = new ArrayList<>();
  private final List<Expression> answered = new ArrayList<>();

  private Ranges(IndexJoin join) {
    this.join = join;
  }

  /**
   * How a join's rows are found by the range index of its table: its {@link IndexJoin#residual} has the
   * conditions beside the equal keys; null if it answers none of them.
   */
  static Search of(IndexJoin join) {
    List<DimensionBounds> all = new ArrayList<>();
    for (Dimension dimension : join.manifest.dimensions) {
      all.add(DimensionBounds.of(join, dimension));
    }
    if (all.get(0) == null) {
      return null;
    }
    boolean areBoxes = join.manifest.hasBoxes() && !all.contains(null);
    return areBoxes ? new Ranges(join).boxes(all) : new Ranges(join).first(all.get(0));
  }

  private Search first(DimensionBounds bounds) {
    add(bounds);
    for (Expression one : join.residual) {
      if (!join.isPointKnown(one)) {
        bounds.addRest(one, residual);
      }
    }
    boolean isInterval = bounds.isByEnds();
    boolean withEmpty = isInterval && bounds.mayMatchEmpty();
    return search(
        new RangeFinder(join.searched(), isInterval, bounds.limits, withEmpty, false));
  }

  /** All conditions are checked: rows of the first range are found where there are no boxes. */
  private Search boxes(List<DimensionBounds> all) {
    long[] limits = RangeLookup.noLimits(all.size());
    boolean mayMatchEmpty = false;
    for (int i = 0; i < all.size(); i++) {
      DimensionBounds bounds = all.get(i);
      add(bounds);
      System.arraycopy(bounds.limits, 0, limits, 4 * i, 4);
      mayMatchEmpty |= bounds.mayMatchEmpty();
    }
    for (Expression one : join.residual) {
      if (!join.isPointKnown(one)) {
        residual.add(one);
      }
    }
    boolean isInterval = all.get(0).isByEnds();
    boolean withEmpty = isInterval && all.get(0).mayMatchEmpty();
    return search(
        new BoxFinder(
            join.searched(), isInterval, limits, withEmpty, mayMatchEmpty, join.manifest.boxes));
  }

  private void add(DimensionBounds bounds) {
    arguments.addAll(bounds.arguments(computed));
    bounds.conditions().filter(one -> !answered.contains(one)).forEach(answered::add);
  }

  private Search search(Finder finder) {
    return new Search(finder, arguments, residual, answered, computed);
  }
}
