package bsjoin.jvm;

/** A file of a table is missing, or is not what bsjoin has written. */
public final class DamagedTableException extends RuntimeException {
  DamagedTableException(String file, String reason) {
    super(
        "DamagedTableError: the file '" + file + "' is damaged (" + reason
            + "); build the table again");
  }
}
