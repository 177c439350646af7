package bsjoin.jvm.storage;

import java.io.Serializable;

/** One version of a stored table, as tasks are told which to open. */
public class StoredVersion implements Serializable {
  public final TableIdentity identity;
  public final int number;
  private final long createdAtUs;

  public StoredVersion(TableIdentity identity, Manifest manifest) {
    this.identity = identity;
    number = manifest.version;
    createdAtUs = manifest.createdAtUs;
  }

  /** The version, which stays open as long as somebody refers to it. */
  public Version open() {
    Version found = Table.of(identity).numbered(number);
    if (found.manifest.createdAtUs != createdAtUs) {
      throw TableError.builtAgain(number, identity.path(), "planned", "Run the query again");
    }
    return found;
  }

  /**
   * The version that answers a row.
   *
   * @param last the one that has answered the row before
   */
  public Version next(Version last) {
    return last;
  }

  /** The version that a row was found in. */
  public Version of(long reference) {
    return open();
  }

  @Override
  public boolean equals(Object other) {
    return other instanceof StoredVersion that
        && that.getClass() == getClass()
        && identity.equals(that.identity)
        && number == that.number
        && createdAtUs == that.createdAtUs;
  }

  @Override
  public int hashCode() {
    return identity.hashCode() + 31 * number + Long.hashCode(createdAtUs);
  }
}
