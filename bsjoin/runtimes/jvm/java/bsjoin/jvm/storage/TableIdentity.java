package bsjoin.jvm.storage;

import java.io.Serializable;
import java.util.List;

/**
 * Which stored table plans and tasks mean.
 *
 * @param path the folder or URL, without credentials
 * @param newest the number of its newest version as the query was planned
 * @param epoch when that was published: tells the table from an earlier one at the same path
 * @param maxStalenessUs how long before a micro-batch its source must have been read at the latest,
 *     in microseconds; 0 for any time
 * @param python the commands of Python to try, for a URL
 */
public record TableIdentity(
    String path, int newest, long epoch, long maxStalenessUs, List<String> python)
    implements Serializable {
  /**
   * Whether a version came before the query was planned: by its number, as clocks differ, and by its
   * time, as numbers begin anew with the table.
   */
  public boolean isOlder(Manifest version) {
    return version.version < newest && version.createdAtUs < epoch;
  }
}
