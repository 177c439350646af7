package bsjoin.jvm.storage;

import java.io.IOException;
import java.lang.reflect.Field;
import java.nio.Buffer;
import java.nio.MappedByteBuffer;
import java.nio.channels.FileChannel;
import java.nio.file.Path;
import java.nio.file.StandardOpenOption;
import java.util.Collections;
import java.util.Map;
import java.util.WeakHashMap;
import java.util.concurrent.atomic.AtomicInteger;
import org.apache.spark.unsafe.Platform;

/**
 * A file mapped read-only into memory, whatever its size.
 *
 * <p>Java maps at most 2 GB at once. A file is mapped in pieces that begin every {@link #STEP} bytes
 * and reach one step further than the next one begins, so that a value of up to one step lies in the
 * piece that its first byte lies in. The pages are shared with the Python workers and with other
 * processes. The mapping ends when the garbage collector finds this object unreachable.
 */
public final class Mapping {
  private static final int SHIFT = 29;
  private static final long STEP = 1L << SHIFT;
  private static final long ADDRESS = addressField();
  private static final int COLLECTED = 1 << 13;
  private static final AtomicInteger OPENED = new AtomicInteger();
  private static final Map<Mapping, Long> MAPPED = // and their bytes
      Collections.synchronizedMap(new WeakHashMap<>());

  /** The longest value that can be read, in bytes. */
  static final long LONGEST = STEP;

  private final MappedByteBuffer[] pieces; // keeps the memory mapped
  private final long[] bases;
  private final boolean whole; // one piece
  private final long base; // of the first piece
  final long size;
  final String name; // for errors

  private Mapping(String name, long size, MappedByteBuffer[] pieces) {
    this.name = name;
    this.size = size;
    this.pieces = pieces;
    this.bases = new long[(int) (size >>> SHIFT) + 1]; // one may begin at the end
    for (int i = 0; i < bases.length; i++) {
      int piece = Math.min(i, pieces.length - 1);
      bases[i] = addressOf(pieces[piece]) - piece * STEP;
    }
    this.whole = pieces.length == 1;
    this.base = bases[0];
  }

  /** Check what a reader relies on: if it does not hold, the file is damaged. */
  void check(boolean holds, String otherwise) {
    if (!holds) {
      throw TableError.damaged(name, otherwise);
    }
  }

  /** The same; a number follows the text, which so costs nothing where it holds. */
  void check(boolean holds, String otherwise, long number) {
    if (!holds) {
      throw TableError.damaged(name, otherwise + number);
    }
  }

  /** Map a file, which an error calls by this name, and which must have this size. */
  static Mapping of(Path path, String name, long size) throws IOException {
    if (OPENED.incrementAndGet() % COLLECTED == 0) {
      System.gc(); // a process has 65,530 mappings by default, and the heap may not need it for long
    }
    try (FileChannel opened = FileChannel.open(path, StandardOpenOption.READ)) {
      if (opened.size() != size) {
        throw TableError.damaged(name, "it has " + opened.size() + " bytes instead of " + size);
      }
      int count = (int) Math.max(1, (size + STEP - 1) >>> SHIFT);
      MappedByteBuffer[] pieces = new MappedByteBuffer[count];
      for (int i = 0; i < count; i++) {
        long begin = i * STEP;
        long length = Math.min(2 * STEP, size - begin);
        pieces[i] = opened.map(FileChannel.MapMode.READ_ONLY, begin, length);
      }
      Mapping made = new Mapping(name, size, pieces);
      MAPPED.put(made, size);
      return made;
    }
  }

  /** The bytes of all files that are mapped. */
  public static long mapped() {
    synchronized (MAPPED) {
      return MAPPED.values().stream().mapToLong(Long::longValue).sum();
    }
  }

  /** The address of a byte; the caller has checked that the offset is inside the file. */
  long address(long offset) {
    return whole ? base + offset : bases[(int) (offset >>> SHIFT)] + offset;
  }

  byte getByte(long offset) {
    return Platform.getByte(null, address(offset));
  }

  int getInt(long offset) {
    return Platform.getInt(null, address(offset));
  }

  long getLong(long offset) {
    return Platform.getLong(null, address(offset));
  }

  private static long addressOf(MappedByteBuffer buffer) {
    return Platform.getLong(buffer, ADDRESS);
  }

  private static long addressField() {
    try {
      Field field = sun.misc.Unsafe.class.getDeclaredField("theUnsafe");
      field.setAccessible(true);
      sun.misc.Unsafe unsafe = (sun.misc.Unsafe) field.get(null);
      return unsafe.objectFieldOffset(Buffer.class.getDeclaredField("address"));
    } catch (ReflectiveOperationException e) {
      throw new ExceptionInInitializerError(e);
    }
  }
}
