package bsjoin.jvm;

import java.nio.file.InvalidPathException;
import java.nio.file.Paths;
import java.util.regex.Pattern;

/**
 * The path or URL of a stored table as a query gives it, in the form that {@link Storage} takes; see
 * {@code bsjoin/store/addresses.py}.
 */
final class Address {
  private static final Pattern PASSWORD = Pattern.compile("(://[^/\\s:@]*):[^\\s]*@");

  private Address() {}

  /** Whether a name in SQL is the path of a table, not one that the settings give it. */
  static boolean is(String name) {
    return name.indexOf('/') >= 0 || name.indexOf('\\') >= 0;
  }

  /**
   * A local path made absolute, or a URL.
   *
   * @throws IllegalStateException it is neither, or it has credentials: plans and errors show paths
   */
  static String of(String given) {
    if (given.contains("://") && !given.startsWith("file:")) {
      String shown = PASSWORD.matcher(given.replaceFirst("\\?.*", "?***")).replaceAll("$1:***@");
      if (!shown.equals(given)) {
        throw TableError.of(
            "StoreError",
            "the URL '" + shown + "' carries credentials or options, which plans would show: give "
                + "them to fsspec through the environment or its configuration file");
      }
      String scheme = given.substring(0, given.indexOf(':'));
      return scheme.toLowerCase(java.util.Locale.ROOT)
          + given.substring(scheme.length()).replaceFirst("/+$", "");
    }
    // As Hadoop does, nothing in a file URL is decoded.
    String path = given.replaceFirst("^file:(//(localhost)?(?=/))?", "");
    try {
      return Paths.get(path).toAbsolutePath().normalize().toString();
    } catch (InvalidPathException e) {
      throw TableError.of("StoreError", "'" + given + "' cannot be a path: " + e.getReason());
    }
  }
}
