package bsjoin.jvm;

/** A file of a table is missing, or is not what bsjoin has written. */
public final class DamagedTableException extends TableException {
  /**
   * Say what is wrong.
   *
   * @param file its name and its table, see {@link Mapping#nameOf}
   * @param reason what it should be and is not
   */
  DamagedTableException(String file, String reason) {
    super("DamagedTableError", file + " is damaged (" + reason + "); build the table again");
  }
}
