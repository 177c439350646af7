package bsjoin.jvm;

import java.io.Serializable;
import java.util.Arrays;
import java.util.List;

/**
 * Some columns of a stored table in one version, as generated code reads them: by the number of the
 * column and the reference of a row.
 *
 * <p>Each iterator has one of its own, from {@link #open}. A text is valid as long as that is.
 */
public final class Columns implements Serializable {
  private final StoredVersion stored;
  private final int[] places; // of the columns among the stored ones; -1: added later, all null
  private transient Version version;
  private transient Column[][] columns; // by the segment: rows that follow each other are of any

  Columns(StoredVersion stored, Manifest manifest, List<String> names) {
    this.stored = stored;
    places = names.stream().mapToInt(manifest::place).toArray();
  }

  /** One for an iterator. */
  public Columns open() {
    Columns opened = new Columns(this);
    opened.version = stored.open();
    opened.columns = new Column[opened.version.manifest.segments.length][];
    return opened;
  }

  private Columns(Columns other) {
    stored = other.stored;
    places = other.places;
  }

  /** A column in the segment of a reference; null if there is no row, or the column came later. */
  public Column column(int number, long reference) {
    if (reference < 0) {
      return null;
    }
    Column[] ofSegment = columns[Version.segmentNumber(reference)];
    Column column = ofSegment == null ? null : ofSegment[number];
    return column == null ? opened(number, reference) : column;
  }

  private Column opened(int number, long reference) {
    int segment = Version.segmentNumber(reference);
    if (columns[segment] == null) {
      columns[segment] = new Column[places.length];
    }
    Segment found = version.segment(reference);
    return columns[segment][number] = places[number] < 0 ? null : found.column(places[number]);
  }

  /** The row of a reference in its segment. */
  public static int row(long reference) {
    return Version.row(reference);
  }

  @Override
  public boolean equals(Object other) {
    return other instanceof Columns
        && ((Columns) other).stored.equals(stored)
        && Arrays.equals(((Columns) other).places, places);
  }

  @Override
  public int hashCode() {
    return stored.hashCode() + 31 * Arrays.hashCode(places);
  }
}
