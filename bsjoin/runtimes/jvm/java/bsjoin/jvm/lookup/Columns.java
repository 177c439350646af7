package bsjoin.jvm.lookup;

import bsjoin.jvm.storage.AggregateTree;
import bsjoin.jvm.storage.Column;
import bsjoin.jvm.storage.LiveVersion;
import bsjoin.jvm.storage.Manifest;
import bsjoin.jvm.storage.Segment;
import bsjoin.jvm.storage.StoredVersion;
import bsjoin.jvm.storage.Version;
import java.io.Serializable;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;

/**
 * Some columns of a stored table, as generated code reads them: by the number of the column and the
 * reference of a row.
 *
 * <p>Each iterator has one of its own, from {@link #open}. A text is valid as long as that is.
 */
public final class Columns implements Serializable {
  private final StoredVersion stored;
  private final boolean follows; // the table's versions, in real-time mode
  private final ArrayList<String> names;
  private int[] places; // of the columns among the stored ones; -1: added later, all null
  private transient Version version;
  private transient Column[][] columns; // by the segment: rows that follow each other are of any
  private transient RunParts[] runs; // of the columns

  public Columns(StoredVersion stored, Manifest manifest, List<String> names) {
    this.stored = stored;
    follows = stored instanceof LiveVersion;
    this.names = new ArrayList<>(names);
    places = placesIn(manifest);
  }

  /** One for an iterator. */
  public Columns open() {
    Columns opened = new Columns(this);
    opened.use(stored.open());
    return opened;
  }

  private Columns(Columns other) {
    stored = other.stored;
    follows = other.follows;
    names = other.names;
    runs = new RunParts[names.size()];
  }

  /** A column in the segment of a reference; null if there is no row, or the column came later. */
  public Column column(int number, long reference) {
    if (reference < 0) {
      return null;
    }
    if (follows && !version.holds(reference)) {
      use(stored.of(reference));
    }
    Column[] ofSegment = columns[Version.segmentNumber(reference)];
    Column column = ofSegment == null ? null : ofSegment[number];
    return column == null ? opened(number, reference) : column;
  }

  /** What aggregates a column in the segment of a reference; null as {@link #column}. */
  AggregateTree tree(int number, long reference) {
    return column(number, reference) == null
        ? null
        : version.segment(reference).tree(places[number]);
  }

  /** What there is of a column in the run of rows that was asked for last. */
  RunParts run(int number) {
    RunParts found = runs[number];
    if (found == null) {
      found = runs[number] = new RunParts(this, number);
    }
    return found;
  }

  String name(int number) {
    return names.get(number);
  }

  private Column opened(int number, long reference) {
    int segment = Version.segmentNumber(reference);
    if (columns[segment] == null) {
      columns[segment] = new Column[places.length];
    }
    // A key that is gone has no columns: what is found ahead is not compared yet.
    boolean isThere = places[number] >= 0 && version.ifPresent(reference) >= 0;
    Segment found = version.segment(reference);
    return columns[segment][number] = isThere ? found.column(places[number]) : null;
  }

  private void use(Version next) {
    version = next;
    places = placesIn(next.manifest);
    columns = new Column[next.size()][];
  }

  private int[] placesIn(Manifest manifest) {
    return names.stream().mapToInt(manifest::place).toArray();
  }

  @Override
  public boolean equals(Object other) {
    return other instanceof Columns that
        && that.stored.equals(stored)
        && Arrays.equals(that.places, places);
  }

  @Override
  public int hashCode() {
    return stored.hashCode() + 31 * Arrays.hashCode(places);
  }
}
