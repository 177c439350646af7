package bsjoin.jvm.storage;

/**
 * The versions of a stored table from the one on that a query was planned with: in real-time mode,
 * whose batches run for minutes, a row is answered from the version that is active then.
 */
public final class LiveVersion extends StoredVersion {
  private final boolean unique; // a version with several rows of a key is refused
  private final Expected expected;
  private transient VersionPoller follower;

  public LiveVersion(TableIdentity identity, Manifest manifest, Expected expected, boolean unique) {
    super(identity, manifest);
    this.expected = expected;
    this.unique = unique;
  }

  @Override
  public Version open() {
    if (follower == null) {
      follower = Table.of(identity).follower();
    }
    return next(null);
  }

  @Override
  public Version next(Version last) {
    Version found = follower.version();
    if (found != last) {
      check(found.manifest);
    }
    return found;
  }

  @Override
  public Version of(long reference) {
    return follower.table.versionOf(reference);
  }

  private void check(Manifest found) {
    if (unique && found.longestRun > 1) {
      throw expected.unfit(
          "DuplicateKeyError", found,
          "has keys with up to " + found.longestRun
              + " rows, and this query was planned when the table was declared unique");
    }
    expected.check(found);
  }
}
