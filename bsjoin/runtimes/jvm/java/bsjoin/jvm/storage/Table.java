package bsjoin.jvm.storage;

import java.lang.ref.WeakReference;
import java.util.ArrayDeque;
import java.util.Arrays;
import java.util.HashMap;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Objects;
import java.util.Set;
import java.util.TreeMap;
import java.util.concurrent.ConcurrentHashMap;

/**
 * A table as this process knows it: the manifests that it has read, and the versions that are open.
 *
 * <p>Which version a micro-batch uses is a function of its timestamp alone, as in {@code
 * bsjoin/storage/versions.py}. The two versions used last stay open; another one stays open as long as
 * the functions of a running task refer to it, and is unmapped by the garbage collector. Plans made
 * at other times have tables of their own, of which the last few of each path are kept.
 */
public final class Table {
  private static final int KEPT = 2; // versions of a table
  private static final int KEPT_TABLES = 4; // of a path
  private static final int KEPT_MANIFESTS = 64; // of a table that does not look at its folder
  private static final long WAITED_US = 10_000_000; // for a version at most: its publisher has gone on
  private static final int TIMES = 64; // of micro-batches, whose versions are known
  private static final Map<String, Recent<TableIdentity, Table>> TABLES = new HashMap<>();

  public final TableIdentity identity;
  private final Storage storage;
  private final TreeMap<Integer, Manifest> known = new TreeMap<>();
  private final Set<Integer> unused = new HashSet<>(); // of these; they may be withdrawn
  private final ArrayDeque<Version> kept = new ArrayDeque<>(); // the one used last at the end
  private final Map<Integer, WeakReference<Version>> open = new ConcurrentHashMap<>(); // by slot
  private final Map<Long, Freshness.Fresh> times = new Recent<>(TIMES);
  private WeakReference<VersionPoller> follower = new WeakReference<>(null);

  private Table(TableIdentity identity) {
    this.identity = identity;
    storage = Storage.of(identity.path(), identity.python());
  }

  public static Table of(TableIdentity identity) {
    synchronized (TABLES) {
      if (!TABLES.containsKey(identity.path())) {
        // The files of removed tables occupy the disk until they are let go.
        TABLES.values().removeIf(
            tables -> tables.values().stream().allMatch(table -> table.storage.isRemoved()));
      }
      return TABLES.computeIfAbsent(identity.path(), path -> new Recent<>(KEPT_TABLES))
          .computeIfAbsent(identity, Table::new);
    }
  }

  /** The manifest of the newest version at a path; one that is known is not read again. */
  public static Manifest newest(String path, List<String> python) {
    Storage storage = Storage.of(path, python);
    Table last = null;
    synchronized (TABLES) {
      Recent<TableIdentity, Table> there = TABLES.get(path);
      for (Table table : there == null ? List.<Table>of() : there.values()) {
        last = table;
      }
    }
    int[] numbers = storage.numbers();
    for (int i = numbers.length - 1; i >= 0; i--) {
      Manifest found = last == null ? null : last.ifKnown(numbers[i]);
      found = found != null && found.isStill(storage) ? found : Manifest.read(storage, numbers[i]);
      if (found != null) { // else it is removed at this moment
        return found;
      }
    }
    throw TableError.of(
        "TableNotFoundError",
        "'" + path + "' holds no table of bsjoin: there is no version in its folder '"
            + Manifest.FOLDER + "'. Build one with BatchTable.build(df, on=..., path=...)");
  }

  private synchronized Manifest ifKnown(int number) {
    return known.get(number);
  }

  /** A version that a query was analysed with; it may be withdrawn before one uses it. */
  public synchronized void know(Manifest manifest) {
    if (known.put(manifest.version, manifest) == null) {
      unused.add(manifest.version);
    }
  }

  /** A version that is open, and the last time for which it is fresh enough, in microseconds. */
  record Active(Version version, long untilUs) {}

  /** The version for a micro-batch, by its timestamp; the folder is read once per micro-batch. */
  synchronized Active at(long timeUs) {
    Freshness.Fresh found = freshAt(timeUs, false);
    return new Active(opened(found.manifest()), found.untilUs());
  }

  /** The same metadata, unless the table was built again at its path since they were read. */
  public synchronized Manifest current(Manifest manifest) {
    Manifest there = manifest.again(storage);
    return there == null ? manifest : there; // of a version that is gone: its files are missed
  }

  /**
   * The metadata of the version for a query that is planned; see {@link #at}.
   *
   * @param isBatch whether it is a batch query: it does not wait for versions that follow one of a
   *     clock that was ahead
   */
  public synchronized Manifest manifestAt(long timeUs, boolean isBatch) {
    return freshAt(timeUs, isBatch).manifest();
  }

  private Freshness.Fresh freshAt(long timeUs, boolean isBatch) {
    long key = isBatch ? ~timeUs : timeUs; // a micro-batch may have the same time
    Freshness.Fresh found = times.get(key);
    if (found != null) {
      return new Freshness.Fresh(current(found.manifest()), found.untilUs());
    }
    // First: a version that is published in between takes nothing from them.
    long maxStalenessUs = identity.maxStalenessUs();
    List<String> marks = maxStalenessUs == 0 ? List.of() : storage.freshMarks();
    Manifest chosen = read(timeUs); // whatever the time: clocks are set back, too
    if (known.isEmpty()) {
      throw TableError.of(
          "VersionNotFoundError",
          "the table in '" + storage.name + "' has no version any more: it was removed after the "
              + "query was analysed. Build it again, and make the DataFrame or view anew");
    }
    for (Manifest later : isBatch ? known.values() : List.<Manifest>of()) {
      chosen = later.createdAtUs <= timeUs - WAITED_US ? later : chosen;
    }
    if (chosen == null) {
      // The first version is active for all earlier times, too.
      Map.Entry<Integer, Manifest> oldest = known.firstEntry();
      if (oldest.getKey() != 1) {
        throw TableError.of(
            "VersionNotFoundError",
            "a micro-batch of time " + timeUs + " µs needs a version of the table in '"
                + storage.name + "' older than those that are left; it was vacuumed. Another "
                + "version could give another answer, so none is taken: restart the query from a "
                + "new checkpoint, and keep versions longer when you vacuum");
      }
      chosen = oldest.getValue();
    }
    found = new Freshness.Fresh(chosen, Long.MAX_VALUE);
    if (maxStalenessUs > 0) {
      Iterable<Manifest> later = known.tailMap(chosen.version).values();
      found = Freshness.chosen(storage.name, later, marks, timeUs, maxStalenessUs);
    }
    unused.remove(found.manifest().version);
    times.put(key, found);
    return found;
  }

  /** What looks for new versions, shared by all functions of running tasks. */
  synchronized VersionPoller follower() {
    VersionPoller found = follower.get();
    if (found == null) {
      found = VersionPoller.of(this, storage.isRemote());
      follower = new WeakReference<>(found);
    }
    return found;
  }

  synchronized Version numbered(int number) {
    return opened(manifest(number));
  }

  public synchronized Manifest manifest(int number) {
    Manifest manifest = known.get(number);
    if (manifest != null && !unused.remove(number)) {
      return current(manifest);
    }
    manifest = Manifest.read(storage, number);
    if (manifest == null) {
      throw TableError.of(
          "VersionNotFoundError",
          "version " + number + " of the table in '" + storage.name + "' is not there (any more); "
              + "there are " + Arrays.toString(storage.numbers()) + ". A result is bound to the "
              + "version it was planned with: plan it again, and keep versions longer when you "
              + "vacuum");
    }
    known.put(number, manifest);
    while (known.size() > KEPT_MANIFESTS) { // an executor is told of each, and looks for none
      unused.remove(known.pollFirstEntry().getKey());
    }
    return manifest;
  }

  /** The version that a reference belongs to: it was opened when the row was found. */
  public Version versionOf(long reference) {
    int slot = Version.slot(reference);
    Version version = openIn(slot);
    return version == null ? again(slot) : version;
  }

  /** Open a version that another process has found a row in, or that this one has closed. */
  private synchronized Version again(int slot) {
    int number = slot;
    for (int there : storage.numbers()) {
      number = there % Version.SLOTS == slot ? there : number;
    }
    return numbered(number);
  }

  /** The versions of the table at a path that are open, whatever plans they are of. */
  private static List<Version> openAt(String path) {
    synchronized (TABLES) {
      return TABLES.getOrDefault(path, new Recent<>(KEPT_TABLES)).values().stream()
          .flatMap(table -> table.open.values().stream())
          .map(WeakReference::get)
          .filter(Objects::nonNull)
          .toList();
    }
  }

  /** How many tables have an open version. */
  public static long open() {
    synchronized (TABLES) {
      return TABLES.keySet().stream().filter(path -> !openAt(path).isEmpty()).count();
    }
  }

  private Version openIn(int slot) {
    WeakReference<Version> weak = open.get(slot);
    return weak == null ? null : weak.get();
  }

  private Version opened(Manifest manifest) {
    int slot = manifest.version % Version.SLOTS;
    Version version = openIn(slot);
    boolean isNew = // also where its number was that of one that was withdrawn
        version == null
            || version.manifest.version != manifest.version
            || version.manifest.createdAtUs != manifest.createdAtUs;
    if (isNew) {
      // Most of its segments may be those of another version: a table that changes.
      List<Version> others = openAt(identity.path());
      version = new Version(storage, manifest, others);
      open.values().removeIf(weak -> weak.get() == null);
      open.put(slot, new WeakReference<>(version));
    }
    kept.remove(version);
    kept.addLast(version);
    if (kept.size() > KEPT) {
      kept.removeFirst();
    }
    if (isNew) {
      storage.keep(() -> kept.stream().flatMap(one -> one.manifest.files()).iterator());
    }
    return version;
  }

  /**
   * Read the versions from the newest one backwards, up to the first that is active at a time; older
   * ones are forgotten. One that no query has used yet may have been withdrawn since, and its number
   * may be another's: then that is read.
   *
   * @return that version; null if none is, and then all are read
   */
  private Manifest read(long timeUs) {
    TreeMap<Integer, Manifest> found = new TreeMap<>();
    Manifest active = null;
    int[] numbers = storage.numbers();
    for (int i = numbers.length - 1; i >= 0 && active == null; i--) {
      Manifest manifest = known.get(numbers[i]);
      if (manifest == null || unused.contains(numbers[i]) && !manifest.isStill(storage)) {
        manifest = Manifest.read(storage, numbers[i]);
        unused.add(numbers[i]);
      } else {
        manifest = manifest.again(storage);
      }
      if (manifest != null) {
        found.put(numbers[i], manifest);
        active = manifest.activatesAtUs <= timeUs ? manifest : null;
      }
    }
    known.clear();
    known.putAll(found);
    unused.retainAll(found.keySet());
    return active;
  }
}
