package bsjoin.jvm;

import java.io.IOException;
import java.nio.file.Path;
import java.nio.file.Paths;
import java.util.Map;
import java.util.TreeMap;
import java.util.concurrent.ConcurrentHashMap;

/**
 * A table as this process knows it: the manifests it has read, and the versions it has open.
 *
 * <p>Which version a micro-batch uses is a function of its timestamp alone, as in {@code
 * bsjoin/store/versions.py}. A version stays open while a function that is in use refers to it (see
 * {@link Functions}), and here until a newer one has been in use for {@link #KEPT_NS}.
 */
final class Table {
  private static final ConcurrentHashMap<String, Table> OPEN = new ConcurrentHashMap<>();
  private static final int SLOTS = 1 << Version.SLOT_BITS;
  private static final int KEPT = 2;
  private static final long KEPT_NS = 10_000_000_000L;

  private final Path path;
  private final TreeMap<Integer, Manifest> known = new TreeMap<>();
  private final Version[] slots = new Version[SLOTS];
  private int next;
  private long readForUs = Long.MIN_VALUE;

  private Table(Path path) {
    this.path = path;
  }

  /**
   * The table at a path.
   *
   * @param path the folder
   * @param epoch when its newest version was published as the query was planned: tells it from an
   *     earlier table at the same path
   */
  static Table of(String path, long epoch) {
    return OPEN.computeIfAbsent(epoch + " " + path, key -> new Table(Paths.get(path)));
  }

  /** The version for a micro-batch; the folder is read once per micro-batch. */
  synchronized Version at(long timeUs) {
    if (timeUs > readForUs || known.isEmpty()) {
      read();
      readForUs = timeUs;
    }
    Manifest chosen = null;
    for (Manifest manifest : known.values()) {
      if (manifest.activatesAtUs <= timeUs) {
        chosen = manifest;
      }
    }
    if (chosen == null) {
      // The first version counts for all earlier times, too.
      Map.Entry<Integer, Manifest> oldest = known.firstEntry();
      if (oldest == null || oldest.getKey() != 1) {
        throw gone("the version for a micro-batch of time " + timeUs + " µs");
      }
      chosen = oldest.getValue();
    }
    return open(chosen);
  }

  /** A version by its number. */
  synchronized Version numbered(int number) {
    Manifest manifest = known.get(number);
    if (manifest == null) {
      try {
        manifest = Manifest.read(path, number);
      } catch (IOException e) {
        throw new DamagedTableException(path.toString(), e.toString());
      }
      if (manifest == null) {
        throw gone("version " + number);
      }
      known.put(number, manifest);
    }
    return open(manifest);
  }

  /** The open version that a reference belongs to. */
  Version of(long reference) {
    Version version = slots[Version.slot(reference)];
    if (version == null) {
      throw gone("the version of a row that was found before");
    }
    return version;
  }

  private Version open(Manifest manifest) {
    long now = System.nanoTime();
    for (Version version : slots) {
      if (version != null && version.manifest.version == manifest.version) {
        version.lastUsedNs = now;
        return version;
      }
    }
    close(now);
    while (slots[next] != null) {
      next = (next + 1) % SLOTS;
    }
    Version opened = new Version(path, manifest, next);
    slots[next] = opened;
    next = (next + 1) % SLOTS;
    return opened;
  }

  /** Forget versions that have not been used for a while, but for the last two. */
  private void close(long now) {
    int newest = known.isEmpty() ? 0 : known.lastKey();
    for (int i = 0; i < SLOTS; i++) {
      Version version = slots[i];
      if (version != null && version.manifest.version <= newest - KEPT
          && now - version.lastUsedNs > KEPT_NS) {
        slots[i] = null;
      }
    }
  }

  private void read() {
    TreeMap<Integer, Manifest> found = new TreeMap<>();
    for (int number : Manifest.numbers(path)) {
      try {
        Manifest manifest = known.get(number);
        manifest = manifest == null ? Manifest.read(path, number) : manifest;
        if (manifest != null) {
          found.put(number, manifest);
        }
      } catch (IOException e) {
        throw new DamagedTableException(path.toString(), e.toString());
      }
    }
    known.clear();
    known.putAll(found);
  }

  private IllegalStateException gone(String what) {
    return new IllegalStateException(
        "VersionGoneError: " + what + " of the table in '" + path + "' is not there (any more): "
            + "restart the query from a new checkpoint, and keep versions longer when you vacuum");
  }
}
