package bsjoin.jvm.storage;

import java.time.Instant;
import java.util.Iterator;
import java.util.List;
import java.util.regex.Matcher;
import java.util.regex.Pattern;

/**
 * How old the rows of a version may be: when its source was last read and found to be the same; see
 * {@code bsjoin/storage/freshness.py}, which says why this is repeatable.
 */
public final class Freshness {
  /** The folder of the marks in that of the table. */
  static final String FOLDER = "fresh";

  /** The name of a mark: version, when the reading began, when the mark was made. */
  private static final Pattern NAME =
      Pattern.compile("([0-9]{8,9})-([0-9]{1,18})-([0-9]{1,18})");

  /** A version, and the last time for which its rows are fresh enough, in microseconds. */
  record Fresh(Manifest manifest, long untilUs) {}

  private Freshness() {}

  /**
   * The first version that is fresh enough for a micro-batch.
   *
   * @param name the table's, for an error
   * @param later the version that is active at its timestamp, and those behind
   * @param marks the names in the table's folder of marks
   * @param timeUs the timestamp, in microseconds since the epoch
   * @param maxStalenessUs how long before it the source must have been read at the latest
   */
  static Fresh chosen(
      String name, Iterable<Manifest> later, List<String> marks, long timeUs, long maxStalenessUs) {
    Iterator<Manifest> entries = later.iterator();
    Manifest manifest = entries.next();
    while (true) {
      Manifest successor = entries.hasNext() ? entries.next() : null;
      long read = readAtUs(manifest, successor, marks);
      if (read >= timeUs - maxStalenessUs) {
        return new Fresh(manifest, read + maxStalenessUs);
      }
      if (successor == null) {
        throw TableError.of(
            "StaleTableError",
            "version " + manifest.version + " of the table in '" + name + "' has the rows of "
                + Instant.ofEpochSecond(read / 1_000_000) + ", " + (timeUs - read) / 1_000_000
                + " s before the micro-batch of " + Instant.ofEpochSecond(timeUs / 1_000_000)
                + ", and max_staleness is " + maxStalenessUs / 1e6 + " s: refreshes have failed "
                + "since, or none was made (see the log, and refresh in bsjoin.progress). Let one "
                + "succeed, then start the query again: it continues from its checkpoint");
      }
      manifest = successor;
    }
  }

  private static long readAtUs(Manifest manifest, Manifest successor, List<String> marks) {
    long read = manifest.readAtUs;
    for (String mark : marks) {
      Matcher parts = NAME.matcher(mark);
      // Marks that were made before it, or after the next version was published, say nothing.
      if (parts.matches() && Long.parseLong(parts.group(1)) == manifest.version
          && Long.parseLong(parts.group(3)) >= manifest.createdAtUs
          && (successor == null || Long.parseLong(parts.group(3)) < successor.createdAtUs)) {
        read = Math.max(read, Long.parseLong(parts.group(2)));
      }
    }
    return read;
  }
}
