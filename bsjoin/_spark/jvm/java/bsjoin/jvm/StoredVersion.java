package bsjoin.jvm;

import java.io.Serializable;
import java.util.ArrayList;

/** One version of a stored table, as tasks are told which to open. */
class StoredVersion implements Serializable {
  final String path; // without credentials
  final long epoch; // see Table.of
  final ArrayList<String> python;
  final int number;
  private final long createdAtUs;

  StoredVersion(StoredTable table, Manifest manifest) {
    path = table.path;
    epoch = table.epoch;
    python = new ArrayList<>(table.table().python());
    number = manifest.version;
    createdAtUs = manifest.createdAtUs;
  }

  /** The version, which stays open as long as somebody refers to it. */
  Version open() {
    Version found = Table.of(path, epoch, 0, python).numbered(number);
    if (found.manifest.createdAtUs != createdAtUs) {
      throw TableError.builtAgain(number, path, "planned", "Run the query again");
    }
    return found;
  }

  /**
   * The version that answers a row.
   *
   * @param last the one that has answered the row before
   */
  Version next(Version last) {
    return last;
  }

  /** The version that a row was found in. */
  Version of(long reference) {
    return open();
  }

  @Override
  public boolean equals(Object other) {
    if (other == null || other.getClass() != getClass()) {
      return false;
    }
    StoredVersion that = (StoredVersion) other;
    return path.equals(that.path)
        && number == that.number
        && createdAtUs == that.createdAtUs
        && python.equals(that.python);
  }

  @Override
  public int hashCode() {
    return path.hashCode() + 31 * number + Long.hashCode(createdAtUs);
  }
}
