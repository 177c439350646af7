package bsjoin.jvm.storage;

import java.nio.file.Files;
import java.nio.file.InvalidPathException;
import java.nio.file.Path;
import java.nio.file.Paths;
import java.util.Locale;
import java.util.Set;
import java.util.regex.Matcher;
import java.util.regex.Pattern;

/**
 * The path or URL of a stored table as a query gives it, in the form that {@link Storage} takes: the
 * same place as in Python, see {@code bsjoin/storage/addresses.py}.
 */
public final class Address {
  private static final Pattern PASSWORD = Pattern.compile("(://[^/\\s:@]*):[^\\s]*@");
  private static final Pattern SCHEME = Pattern.compile("([A-Za-z][A-Za-z0-9+.-]+):");
  private static final Pattern DRIVE = Pattern.compile("[A-Za-z]:([\\\\/]|$)|\\\\\\\\");
  private static final Path DBFS = Paths.get("/dbfs");

  /** Of URLs, also if {@code //} is missing; of another one it may be the name of a folder. */
  private static final Set<String> SCHEMES =
      Set.of(
          ("s3 s3a s3n gs gcs abfs abfss az adl wasb wasbs oci oss tos hf sftp ssh smb webdav "
              + "webhdfs swebhdfs hdfs viewfs http https lakefs box wandb cosn obs ofs o3fs har")
              .split(" "));

  private Address() {}

  /** Whether a name in SQL is the path of a table, not one that the settings give it. */
  public static boolean is(String name) {
    return name.indexOf('/') >= 0 || name.indexOf('\\') >= 0;
  }

  /**
   * A local path made absolute, or a URL with its scheme in lower case.
   *
   * @throws IllegalStateException it is neither, or it has credentials: plans and errors show paths
   */
  public static String of(String given) {
    String shown = // a password may have a question mark
        PASSWORD.matcher(given).replaceAll("$1:***@").replaceFirst("(://.*?)\\?.*", "$1?***");
    boolean isWindows = System.getProperty("os.name").startsWith("Windows");
    if (!isWindows && DRIVE.matcher(given).lookingAt()) {
      throw refused(shown, "is a path of Windows, and this is another system");
    }
    Matcher found = SCHEME.matcher(given);
    String scheme = found.lookingAt() ? found.group(1).toLowerCase(Locale.ROOT) : "";
    String rest = given.substring(scheme.isEmpty() ? 0 : scheme.length() + 1);
    boolean isFile = scheme.equals("file");
    if (isFile || scheme.equals("dbfs")) {
      // As Hadoop does, nothing in it is decoded.
      String path = rest.replaceFirst(isFile ? "^//(localhost)?(?=/)" : "^//(?=/)", "");
      if (!path.startsWith("/") || rest.startsWith("//") && path.equals(rest)) {
        throw refused(shown, "has no absolute path: write " + scheme + ":///folder");
      }
      return local(isFile ? path : DBFS + path);
    }
    boolean isChain = rest.startsWith(":") && rest.contains("://"); // fsspec's simplecache::s3://…
    if (!scheme.isEmpty() && (rest.startsWith("//") || isChain)) {
      if (!shown.equals(given)) {
        throw refused(
            shown,
            "carries credentials or options, which plans would show: give them to fsspec through "
                + "the environment or its configuration file");
      }
      return ((isChain ? given.substring(0, scheme.length()) : scheme) + ":" + rest)
          .replaceFirst("/+$", "");
    }
    if (!scheme.isEmpty() && (rest.startsWith("/") || SCHEMES.contains(scheme))) {
      throw refused(
          shown,
          "is neither a local path nor a URL: a URL begins with " + scheme + "://. For a local "
              + "folder of that name write ./" + shown);
    }
    return local(given);
  }

  private static String local(String given) {
    try {
      Path path = Paths.get(given);
      String first = path.getNameCount() == 0 || path.isAbsolute() ? "" : path.getName(0).toString();
      if (first.equals("~")) {
        String home = System.getenv("HOME");
        path = Paths.get((home == null ? System.getProperty("user.home") : home) + given.substring(1));
      } else if (first.startsWith("~")) {
        throw refused(given, "is the home of a user, which only Python finds: write the folder itself");
      }
      Path absolute = path.toAbsolutePath();
      Path kept = absolute.getRoot();
      for (Path part : absolute) {
        kept = part.toString().equals(".") ? kept : kept.resolve(part); // ".." may leave a link
      }
      if (kept.startsWith(DBFS) && !Files.exists(DBFS)) {
        throw refused(
            given, "cannot be read: DBFS is not mounted at /dbfs. Give a URL or another folder");
      }
      return kept.toString();
    } catch (InvalidPathException e) {
      throw refused(given.replace('\0', '?'), "cannot be a path: " + e.getReason());
    }
  }

  private static IllegalStateException refused(String shown, String why) {
    return TableError.of("StoreError", "'" + shown + "' " + why);
  }
}
