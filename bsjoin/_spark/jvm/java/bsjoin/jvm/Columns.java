package bsjoin.jvm;

import java.io.Serializable;
import java.util.Arrays;
import java.util.List;
import org.apache.spark.sql.types.Decimal;
import org.apache.spark.unsafe.types.UTF8String;

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

  private Column column(int number, long reference) {
    Column[] ofSegment = columns[Version.segmentNumber(reference)];
    Column column = ofSegment == null ? null : ofSegment[number];
    return column == null ? opened(number, reference) : column;
  }

  private Column opened(int number, long reference) {
    int segment = Version.segmentNumber(reference);
    if (columns[segment] == null) {
      columns[segment] = new Column[places.length];
    }
    return columns[segment][number] = version.segment(reference).column(places[number]);
  }

  /** Whether there is no row, or no value in it. */
  public boolean isNull(int number, long reference) {
    return reference < 0
        || places[number] < 0
        || column(number, reference).isNull(Version.row(reference));
  }

  // The values of rows in which they are not null.

  public boolean getBoolean(int number, long reference) {
    return column(number, reference).getBoolean(Version.row(reference));
  }

  public byte getByte(int number, long reference) {
    return column(number, reference).getByte(Version.row(reference));
  }

  public short getShort(int number, long reference) {
    return column(number, reference).getShort(Version.row(reference));
  }

  public int getInt(int number, long reference) {
    return column(number, reference).getInt(Version.row(reference));
  }

  public long getLong(int number, long reference) {
    return column(number, reference).getLong(Version.row(reference));
  }

  public float getFloat(int number, long reference) {
    return column(number, reference).getFloat(Version.row(reference));
  }

  public double getDouble(int number, long reference) {
    return column(number, reference).getDouble(Version.row(reference));
  }

  public Decimal getDecimal(int number, long reference, int precision, int scale) {
    return column(number, reference).getDecimal(Version.row(reference), precision, scale);
  }

  public UTF8String getUTF8String(int number, long reference) {
    return column(number, reference).getText(Version.row(reference));
  }

  public byte[] getBinary(int number, long reference) {
    return column(number, reference).getBinary(Version.row(reference));
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
