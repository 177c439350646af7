package bsjoin.jvm;

import java.io.IOException;
import java.lang.reflect.Field;
import java.nio.Buffer;
import java.nio.MappedByteBuffer;
import java.nio.channels.FileChannel;
import java.nio.file.FileSystemException;
import java.nio.file.Files;
import java.nio.file.NoSuchFileException;
import java.nio.file.Path;
import java.nio.file.StandardOpenOption;
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
final class Mapping {
  private static final int SHIFT = 29;
  private static final long STEP = 1L << SHIFT;
  private static final long ADDRESS = addressField();
  private static final int COLLECTED = 1 << 13;
  private static final AtomicInteger OPENED = new AtomicInteger();

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

  /**
   * Map a file.
   *
   * @param table the table's folder
   * @param file the file's name in it
   * @param size its size in bytes, as the manifest has it
   * @throws IllegalStateException if it is missing, cannot be read or has another size
   */
  static Mapping of(Path table, String file, long size) {
    String name = nameOf(table, file);
    if (OPENED.incrementAndGet() % COLLECTED == 0) {
      System.gc(); // a process has 65,530 mappings by default, and the heap may not need it for long
    }
    Path path = table.resolve(file);
    try (FileChannel opened = openedInside(table, path)) {
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
      return new Mapping(name, size, pieces);
    } catch (NoSuchFileException e) {
      throw TableError.missing(name);
    } catch (IOException e) {
      throw TableError.inaccessible("read '" + file + "'", table, e);
    }
  }

  private static FileChannel openedInside(Path table, Path file) throws IOException {
    checkInside(table, file);
    return FileChannel.open(file, StandardOpenOption.READ);
  }

  /**
   * Refuse a file that leads out of the table's folder, and one that is a pipe, say.
   *
   * @throws IOException it is not there, or is a folder
   */
  static void checkInside(Path table, Path file) throws IOException {
    Path real = file.toRealPath();
    if (!real.startsWith(table.toRealPath())) {
      throw TableError.of(
          "StoreError",
          "'" + file + "' is a link to '" + real + "', which is outside of '" + table + "'. The "
              + "content of a table's folder is not trusted to refer to other files: remove the "
              + "link, or move the whole folder and link that");
    }
    if (Files.isDirectory(real)) {
      throw new FileSystemException(file.toString(), null, "Is a directory");
    }
    if (!Files.isRegularFile(real)) {
      throw TableError.of(
          "StoreError", "'" + file + "' is neither a file nor a folder: remove it");
    }
  }

  /** What an error calls a file of a table. */
  static String nameOf(Path table, String file) {
    return "the file '" + file + "' of the table in '" + table + "'";
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
