package bsjoin;

import org.apache.spark.sql.SparkSession;
import org.apache.spark.sql.SparkSessionExtensions;
import scala.runtime.AbstractFunction1;
import scala.runtime.BoxedUnit;

/**
 * Attaches bsjoin to every session of an application by its settings alone: {@code
 * spark.sql.extensions=bsjoin.Extensions}, with the jar on {@code spark.jars} or the class path.
 *
 * <p>Stored tables are then tables of the catalog {@code bsjoin}; see {@link
 * bsjoin.jvm.catalog.StoredTables}.
 */
public final class Extensions extends AbstractFunction1<SparkSessionExtensions, BoxedUnit> {
  private static final String SETTING = "spark.sql.catalog.bsjoin";
  private static final String CATALOG = "bsjoin.jvm.Functions";

  @Override
  public BoxedUnit apply(SparkSessionExtensions extensions) {
    // Checks are made when a session analyses its first query: before it asks for a catalog.
    extensions.injectCheckRule(
        session -> {
          nameCatalog(session);
          return plan -> BoxedUnit.UNIT;
        });
    return BoxedUnit.UNIT;
  }

  /** Name the class of the catalog, unless the settings do. */
  private static void nameCatalog(SparkSession session) {
    if (session.conf().getOption(SETTING).isEmpty()) {
      session.conf().set(SETTING, CATALOG);
    }
  }
}
