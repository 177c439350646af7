package bsjoin.jvm;

import org.apache.spark.unsafe.Platform;

/**
 * The buffers of an Arrow IPC file that holds one record batch, read without an Arrow library.
 *
 * <p>Accepted is exactly what bsjoin writes: a schema message and one uncompressed record batch (see
 * {@code bsjoin/store/mapped.py}). Every number of the file is checked before it is used: a buffer
 * lies inside the body of its message, and the body inside the file. The format is that of Arrow's
 * {@code Message.fbs} and {@code Schema.fbs}.
 */
final class ArrowFile {
  private static final long MAGIC = 0x000031574f525241L; // "ARROW1", then two zeros
  private static final int CONTINUATION = -1;
  private static final int SCHEMA = 1;
  private static final int RECORD_BATCH = 3;

  final Mapping file;
  final long rows;
  final int[] types; // of the columns, as ColumnType.arrow writes them
  private final long[] offsets; // of the buffers, from the beginning of the file
  private final long[] lengths;

  /**
   * Read the messages.
   *
   * @throws IllegalStateException if they are not what bsjoin writes
   */
  ArrowFile(Mapping file) {
    this.file = file;
    check(file.size >= 16 && file.getLong(0) == MAGIC, "it is not an Arrow file");
    Message schema = new Message(8, SCHEMA);
    check(schema.bodyLength == 0, "its schema has a body");
    types = typesOf(schema.header);
    Message batch = new Message(schema.end, RECORD_BATCH);
    Table header = batch.header;
    check(header.offset(3) == 0, "it is compressed");
    rows = header.getLong(0, 0);
    long begin = header.vector(2);
    int count = header.vectorLength(2, 16);
    offsets = new long[count];
    lengths = new long[count];
    for (int i = 0; i < count; i++) {
      long offset = file.getLong(begin + 16L * i);
      long length = file.getLong(begin + 16L * i + 8);
      check(
          offset >= 0 && offset % 8 == 0 && length >= 0 && offset <= batch.bodyLength - length,
          "buffer " + i + " is outside of the batch");
      offsets[i] = batch.body + offset;
      lengths[i] = length;
    }
  }

  /** How many buffers all columns have together. */
  int buffers() {
    return offsets.length;
  }

  /** Whether a buffer is there at all; one of a column without nulls is not. */
  boolean has(int buffer) {
    return lengths[buffer] > 0;
  }

  /**
   * Where a buffer begins.
   *
   * @param buffer its number
   * @param least how many bytes it must have
   * @throws IllegalStateException if it is shorter
   */
  long offset(int buffer, long least) {
    check(lengths[buffer] >= least, "buffer " + buffer + " is shorter than " + least + " bytes");
    return offsets[buffer];
  }

  /** The length of a buffer in bytes. */
  long length(int buffer) {
    return lengths[buffer];
  }

  private int[] typesOf(Table schema) {
    long begin = schema.vector(1);
    int count = schema.vectorLength(1, 4);
    int[] found = new int[count];
    for (int i = 0; i < count; i++) {
      Table field = table(begin + 4L * i);
      int kind = file.getByte(field.required(2, 1));
      Table type = table(field.required(3, 4));
      int first = type.getShort(0, kind == ColumnType.DATE ? 1 : 0);
      int second = kind == ColumnType.DECIMAL ? type.getShort(1, 0) : 0;
      found[i] = ColumnType.arrow(kind, first, second);
    }
    return found;
  }

  private void check(boolean holds, String otherwise) {
    if (!holds) {
      throw TableError.damaged(file.name, otherwise);
    }
  }

  /** A position from which so many bytes can be read. */
  private long inside(long position, long bytes) {
    check(position >= 0 && bytes >= 0 && position <= file.size - bytes, "an offset is outside of it");
    return position;
  }

  /** The table that an offset at some position leads to. */
  private Table table(long position) {
    return new Table(position + (file.getInt(inside(position, 4)) & 0xffffffffL));
  }

  /** A message with its metadata and its body. */
  private final class Message {
    final Table header;
    final long body;
    final long bodyLength;
    final long end;

    Message(long position, int kind) {
      inside(position, 8);
      check(file.getInt(position) == CONTINUATION, "a message does not begin where it must");
      long length = file.getInt(position + 4);
      check(length > 0, "a message is missing");
      body = inside(position + 8, length) + length;
      check(body % 8 == 0, "a message is not aligned");
      Table message = table(position + 8);
      long type = message.offset(1);
      check(type != 0 && file.getByte(type) == kind, "it has other messages than bsjoin writes");
      header = table(message.required(2, 4));
      bodyLength = message.getLong(3, 0);
      end = inside(body, bodyLength) + bodyLength;
    }
  }

  /** A table of a flatbuffer: fields that may be absent, found through its vtable. */
  private final class Table {
    private final long position;
    private final long vtable;
    private final int fields;

    Table(long position) {
      this.position = inside(position, 4);
      vtable = inside(position - file.getInt(position), 4);
      fields = file.getInt(vtable) & 0xffff;
      inside(vtable, fields);
    }

    /** The position of a field; 0 if it is absent. */
    long offset(int field) {
      int at = 4 + 2 * field;
      if (at + 2 > fields) {
        return 0;
      }
      int low = file.getByte(vtable + at) & 0xff;
      int high = file.getByte(vtable + at + 1) & 0xff;
      int offset = low | high << 8;
      return offset == 0 ? 0 : inside(position + offset, 1);
    }

    long required(int field, long bytes) {
      long at = offset(field);
      check(at != 0, "a field of its metadata is missing");
      return inside(at, bytes);
    }

    int getShort(int field, int otherwise) {
      long at = offset(field);
      if (at == 0) {
        return otherwise;
      }
      return Platform.getShort(null, file.address(inside(at, 2)));
    }

    long getLong(int field, long otherwise) {
      long at = offset(field);
      return at == 0 ? otherwise : file.getLong(inside(at, 8));
    }

    /** Where the elements of a vector begin. */
    long vector(int field) {
      long at = required(field, 4);
      long length = at + (file.getInt(at) & 0xffffffffL);
      return inside(length, 4) + 4;
    }

    /** How many elements of so many bytes each it has. */
    int vectorLength(int field, int bytes) {
      long begin = vector(field);
      long count = file.getInt(begin - 4) & 0xffffffffL;
      check(count < 1 << 20, "it has too many columns");
      inside(begin, count * bytes);
      return (int) count;
    }
  }
}
