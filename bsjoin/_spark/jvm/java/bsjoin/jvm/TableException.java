package bsjoin.jvm;

/**
 * A table that cannot answer a query.
 *
 * <p>The message begins with the name of the error that the Python runtime raises for the same
 * reason: see {@code bsjoin/errors.py}.
 */
public class TableException extends RuntimeException {
  TableException(String error, String message) {
    super("bsjoin.errors." + error + ": " + message);
  }
}
