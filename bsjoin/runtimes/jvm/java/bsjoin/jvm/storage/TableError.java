package bsjoin.jvm.storage;

import java.io.IOException;
import java.nio.file.AccessDeniedException;
import java.nio.file.FileSystemException;
import java.nio.file.NotDirectoryException;

/**
 * Errors of a table that cannot answer a query.
 *
 * <p>A message begins with the name of the error that the Python runtime raises for the same reason:
 * see {@code bsjoin/errors.py}. The class is one of the JDK's: the driver reads an error in a thread
 * that need not know the classes of this jar.
 */
public final class TableError {
  /** What the message of an error begins with that says that there is no table at a path. */
  public static final String NO_TABLE = "bsjoin.errors.TableNotFoundError: ";

  private TableError() {}

  public static IllegalStateException of(String error, String message) {
    return new IllegalStateException("bsjoin.errors." + error + ": " + message);
  }

  /** A file, by {@link Storage#nameOf}, is not what bsjoin has written. */
  static IllegalStateException damaged(String file, String reason) {
    return of("DamagedTableError", file + " is damaged (" + reason + "); build the table again");
  }

  /** A table was built again at its path: a version is not the one that a query was made with. */
  public static IllegalStateException builtAgain(int version, String table, String made, String advice) {
    return of(
        "VersionNotFoundError",
        "version " + version + " of the table in '" + table + "' is not the one that the query was "
            + made + " with: the table was built again. " + advice);
  }

  /** A file or folder of a table is there, or may be, and cannot be used. */
  public static IllegalStateException inaccessible(String doing, String table, IOException error) {
    String reason = error.getMessage();
    if (error instanceof AccessDeniedException) {
      reason = "Permission denied";
    } else if (error instanceof NotDirectoryException) {
      reason = "Not a directory";
    } else if (error instanceof FileSystemException) {
      reason = ((FileSystemException) error).getReason();
    }
    return of(
        "StoreAccessError",
        "cannot " + doing + " in '" + table + "': " + (reason == null ? error : reason)
            + ". It must be a folder (or not exist yet), and the process needs permission to read "
            + "and write in it");
  }

  public static boolean is(Exception error) {
    return String.valueOf(error.getMessage()).startsWith("bsjoin.errors.");
  }
}
