package bsjoin.jvm;

/**
 * Errors of a table that cannot answer a query.
 *
 * <p>A message begins with the name of the error that the Python runtime raises for the same reason:
 * see {@code bsjoin/errors.py}. The class is one of the JDK's: the driver reads an error in a thread
 * that need not know the classes of this jar.
 */
final class TableError {
  private TableError() {}

  /** An error by its name in Python. */
  static IllegalStateException of(String error, String message) {
    return new IllegalStateException("bsjoin.errors." + error + ": " + message);
  }

  /**
   * A file of a table is missing, or is not what bsjoin has written.
   *
   * @param file its name and its table, see {@link Mapping#nameOf}
   * @param reason what it should be and is not
   */
  static IllegalStateException damaged(String file, String reason) {
    return of("DamagedTableError", file + " is damaged (" + reason + "); build the table again");
  }

  /** Whether an error is one of these. */
  static boolean is(Exception error) {
    return String.valueOf(error.getMessage()).startsWith("bsjoin.errors.");
  }
}
