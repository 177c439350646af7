package bsjoin.jvm;

import java.io.IOException;
import java.util.ArrayDeque;
import java.util.HashMap;
import java.util.HashSet;
import java.util.Map;
import java.util.Set;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.FutureTask;
import org.slf4j.LoggerFactory;

/**
 * Whether this Spark has all that joins by the index are made of.
 *
 * <p>Spark's planner is not part of its public API: another version, or another distribution, may
 * lack a class or a method, which would show when a query is planned, or while it runs. So the
 * classes of this jar are read once, before the first plan: everything of Spark and Scala that they
 * refer to must be there, and they must implement all that is abstract. Otherwise there is one
 * warning, and joins are Spark's own.
 */
final class Linkage {
  private static final String OURS = "bsjoin/jvm/";
  private static final String ROOT = OURS + "JoinStrategy";

  private static final FutureTask<String> FOUND =
      new FutureTask<>(
          () -> {
            try {
              return new Linkage().missing();
            } catch (IOException | RuntimeException e) {
              return "the classes of the jar cannot be read: " + e;
            }
          });
  private static boolean isStarted;
  private static boolean isWarned;
  private static volatile boolean hasFailed;
  private static volatile String failure; // what was missing

  private final ClassLoader loader = Linkage.class.getClassLoader();
  private final Map<String, ClassFile> read = new HashMap<>();

  private Linkage() {}

  /** Begin to read, in a thread of its own: it takes some tenths of a second. */
  static synchronized void start() {
    if (!isStarted) {
      isStarted = true;
      Thread thread = new Thread(FOUND, "bsjoin-linkage");
      thread.setDaemon(true);
      thread.start();
    }
  }

  /** Whether nothing is missing. */
  static boolean isWhole() {
    String missing = found();
    if (missing != null && !missing.isEmpty()) {
      failed(missing);
    }
    return missing != null && !hasFailed;
  }

  /** Refuse a Spark in which something is missing. */
  static void check() {
    String missing = found();
    if (missing == null || !missing.isEmpty() || hasFailed) {
      throw new UnsupportedOperationException(
          "this Spark has another planner than those that bsjoin supports ("
              + (missing == null ? "interrupted" : missing.isEmpty() ? failure : missing) + ")");
    }
  }

  /** What is missing; empty for nothing, null if this thread was interrupted while it waited. */
  private static String found() {
    start();
    try {
      return FOUND.get();
    } catch (InterruptedException e) {
      Thread.currentThread().interrupt();
      return null;
    } catch (ExecutionException e) {
      return String.valueOf(e.getCause());
    }
  }

  /** Something is missing: no more joins are planned. */
  static synchronized void failed(String missing) {
    failure = missing;
    hasFailed = true;
    if (!isWarned) {
      isWarned = true;
      LoggerFactory.getLogger("bsjoin")
          .warn(
              "bsjoin: joins with stored tables are not answered by their indexes, but by a scan and "
                  + "a join of Spark: this Spark has another planner than those that bsjoin supports ("
                  + missing + ")");
    }
  }

  private String missing() throws IOException {
    Set<String> seen = new HashSet<>();
    ArrayDeque<String> open = new ArrayDeque<>();
    open.add(ROOT);
    while (!open.isEmpty()) {
      String name = open.remove();
      ClassFile file = file(name);
      if (!seen.add(name)) {
        continue;
      }
      if (file == null) {
        return name.replace('/', '.') + " is not there";
      }
      for (String other : file.classes) {
        if (other.startsWith(OURS)) {
          open.add(other);
        } else if (isOfSpark(other) && file(other) == null) {
          return other.replace('/', '.') + " is not there";
        }
      }
      for (String[] member : file.members) {
        if (isOfSpark(member[0]) && !declares(member[0], member[1])) {
          return member[0].replace('/', '.') + " has no " + member[1];
        }
      }
      Set<String> abstracts = new HashSet<>();
      collectAbstract(name, abstracts);
      for (String method : file.isAbstract ? new HashSet<String>() : abstracts) {
        if (!implementedBy(name, method)) {
          return name.replace('/', '.') + " does not implement " + method;
        }
      }
    }
    return "";
  }

  private static boolean isOfSpark(String name) {
    return name.startsWith("org/apache/spark/") || name.startsWith("scala/");
  }

  private ClassFile file(String name) throws IOException {
    if (!read.containsKey(name)) {
      read.put(name, ClassFile.of(loader, name));
    }
    return read.get(name);
  }

  /** Whether a class has a field or method, or inherits it. */
  private boolean declares(String name, String member) throws IOException {
    ClassFile file = file(name);
    if (file == null) {
      return false;
    }
    if (file.declared.contains(member) || name.startsWith("java/")) {
      return true;
    }
    for (String parent : file.parents) {
      if (declares(parent, member)) {
        return true;
      }
    }
    return false;
  }

  private void collectAbstract(String name, Set<String> found) throws IOException {
    ClassFile file = name.startsWith("java/") ? null : file(name);
    if (file != null) {
      found.addAll(file.unimplemented);
      for (String parent : file.parents) {
        collectAbstract(parent, found);
      }
    }
  }

  /** Whether a class, one of its parents or an interface has code for a method. */
  private boolean implementedBy(String name, String method) throws IOException {
    ClassFile file = file(name);
    if (file == null) {
      return false;
    }
    if (file.declared.contains(method) && !file.unimplemented.contains(method)) {
      return true;
    }
    for (String parent : file.parents) {
      if (implementedBy(parent, method)) {
        return true;
      }
    }
    return false;
  }
}
