package bsjoin.jvm.planner;

import java.io.BufferedInputStream;
import java.io.DataInputStream;
import java.io.IOException;
import java.io.UncheckedIOException;
import java.lang.invoke.MethodHandles;
import java.lang.invoke.MethodType;
import java.lang.reflect.Method;
import java.lang.reflect.Modifier;
import java.util.ArrayDeque;
import java.util.HashSet;
import java.util.Set;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.ExecutionException;
import org.slf4j.LoggerFactory;

/**
 * Whether this Spark has all that joins by the index are made of.
 *
 * <p>Spark's planner is not part of its public API: another version, or another distribution, may
 * lack a class or a method, which would show when a query is planned, or while it runs. So what the
 * classes of this jar refer to is resolved once, before the first plan: everything of Spark and Scala
 * must be there, and all that is abstract must be implemented. Otherwise there is one warning, and
 * joins are Spark's own.
 */
public final class Linkage {
  private static final String OURS = "bsjoin/jvm/";
  private static final ClassLoader LOADER = Linkage.class.getClassLoader();
  private static final MethodHandles.Lookup LOOKUP = MethodHandles.lookup();

  private static volatile String failure; // what is missing; null for nothing

  /** What was missing as all was resolved; empty for nothing. It takes some tenths of a second. */
  private static final CompletableFuture<String> FOUND =
      CompletableFuture.supplyAsync(
          Linkage::missing,
          work -> {
            Thread thread = new Thread(work, "bsjoin-linkage");
            thread.setDaemon(true);
            thread.start();
          });

  private Linkage() {}

  /** Begin, in a thread of its own: the initialization of this class does. */
  public static void start() {}

  static boolean isWhole() {
    String missing = found();
    if (missing != null && !missing.isEmpty()) {
      failed(missing);
    }
    return missing != null && failure == null;
  }

  public static void check() {
    String missing = found();
    missing = missing == null ? "interrupted" : missing.isEmpty() ? failure : missing;
    if (missing != null) {
      throw new UnsupportedOperationException(
          "this Spark has another planner than those that bsjoin supports (" + missing + ")");
    }
  }

  /** What is missing; empty for nothing, null if this thread was interrupted while it waited. */
  private static String found() {
    try {
      return FOUND.get();
    } catch (InterruptedException e) {
      Thread.currentThread().interrupt();
      return null;
    } catch (ExecutionException e) {
      return "the classes of the jar cannot be read: " + e.getCause();
    }
  }

  /** Something is missing: no more joins are planned. */
  static synchronized void failed(String missing) {
    if (failure == null) {
      failure = missing;
      LoggerFactory.getLogger("bsjoin")
          .warn(
              "bsjoin: joins with stored tables are not answered by their indexes, but by a scan and "
                  + "a join of Spark: this Spark has another planner than those that bsjoin supports ("
                  + missing + ")");
    }
  }

  private static String missing() {
    Set<String> seen = new HashSet<>();
    ArrayDeque<String> open = new ArrayDeque<>(Set.of(OURS + "planner/JoinStrategy"));
    try {
      while (!open.isEmpty()) {
        String name = open.remove();
        if (!isWanted(name) || !seen.add(name)) {
          continue;
        }
        Class<?> found = named(name);
        if (name.startsWith(OURS)) {
          boolean isOpen = Modifier.isAbstract(found.getModifiers());
          for (Method method : found.getMethods()) {
            if (!isOpen && Modifier.isAbstract(method.getModifiers())) {
              return found.getName() + " does not implement " + method;
            }
          }
          open.addAll(resolved(name, seen));
        }
      }
      return "";
    } catch (ClassNotFoundException | NoClassDefFoundError e) {
      return e.getMessage().replace('/', '.') + " is not there";
    } catch (ReflectiveOperationException | TypeNotPresentException | LinkageError e) {
      return e.getMessage();
    } catch (IOException e) {
      throw new UncheckedIOException(e);
    }
  }

  private static Class<?> named(String name) throws ClassNotFoundException {
    return Class.forName(name.replace('/', '.'), false, LOADER);
  }

  private static boolean isWanted(String name) {
    return name.startsWith(OURS) || name.startsWith("org/apache/spark/") || name.startsWith("scala/");
  }

  /** Resolve the members that a class of ours refers to; the classes that it refers to. */
  private static Set<String> resolved(String name, Set<String> seen)
      throws IOException, ReflectiveOperationException {
    Object[] constants; // of the class file: texts, and for others the places that they name
    try (DataInputStream in =
        new DataInputStream(
            new BufferedInputStream(LOADER.getResourceAsStream(name + ".class")))) {
      in.readLong(); // what begins each file, and its version
      constants = new Object[in.readUnsignedShort()];
      for (int i = 1; i < constants.length; i++) {
        int kind = in.readUnsignedByte();
        switch (kind) {
          case 1 -> constants[i] = in.readUTF();
          case 3, 4 -> in.readInt();
          case 5, 6 -> {
            in.readLong();
            i++; // they count twice
          }
          case 15 -> in.skipBytes(3); // the handle of a method, which is a constant of its own
          case 7, 8, 16, 19, 20 -> constants[i] = new int[] {kind, in.readUnsignedShort()};
          default ->
              constants[i] = new int[] {kind, in.readUnsignedShort(), in.readUnsignedShort()};
        }
      }
    }
    Set<String> classes = new HashSet<>();
    for (Object constant : constants) {
      if (constant instanceof int[] entry && entry[0] == 7) {
        classes.add((String) constants[entry[1]]);
      } else if (constant instanceof int[] entry && entry[0] >= 9 && entry[0] <= 11) {
        String owner = (String) constants[((int[]) constants[entry[1]])[1]];
        int[] member = (int[]) constants[entry[2]];
        String called = (String) constants[member[1]];
        String descriptor = (String) constants[member[2]];
        boolean isOfSpark = isWanted(owner) && !owner.startsWith(OURS);
        if (isOfSpark && seen.add(owner + " " + called + descriptor)) {
          resolve(named(owner), entry[0] == 9, called, descriptor);
        }
      }
    }
    return classes;
  }

  /** Find a field, method or constructor, as the JVM does. */
  private static void resolve(Class<?> owner, boolean isField, String name, String descriptor)
      throws ReflectiveOperationException {
    String call = isField ? "()" + descriptor : descriptor;
    MethodType type = MethodType.fromMethodDescriptorString(call, LOADER);
    try {
      if (isField) {
        LOOKUP.findStaticGetter(owner, name, type.returnType());
      } else if (name.equals("<init>")) {
        LOOKUP.findConstructor(owner, type);
      } else {
        LOOKUP.findVirtual(owner, name, type);
      }
    } catch (IllegalAccessException e) {
      // It is there: protected, or a static method, or a field of objects.
    }
  }
}
