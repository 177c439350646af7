package bsjoin.jvm.storage;

import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import org.apache.spark.unsafe.Platform;

/**
 * The buffers of an Arrow IPC file that holds one record batch, read without an Arrow library.
 *
 * <p>Accepted is exactly what bsjoin writes: a schema message and one uncompressed record batch (see
 * {@code bsjoin/storage/mapped.py}). Every number of the file is checked before it is used: a message
 * lies inside the file, what it refers to inside its metadata, and a buffer inside its body. The
 * format is that of Arrow's {@code Message.fbs} and {@code Schema.fbs}.
 */
public final class ArrowFile {
  private static final long MAGIC = 0x000031574f525241L; // "ARROW1", then two zeros
  private static final int CONTINUATION = -1;
  private static final int SCHEMA = 1;
  private static final int RECORD_BATCH = 3;
  private static final int MOST = 1 << 20; // columns, buffers
  private static final int LARGEST = 1 << 24; // metadata of a message, in bytes

  final Mapping file;
  final long rows;
  final int[] types; // of the columns, as ColumnType.arrow writes them
  private final long[] offsets; // of the buffers, from the beginning of the file
  private final long[] lengths;

  ArrowFile(Mapping file) {
    this.file = file;
    file.check(file.size >= 16 && file.getLong(0) == MAGIC, "it is not an Arrow file");
    try {
      Message schema = new Message(8, SCHEMA);
      file.check(schema.bodyLength == 0, "its schema has a body");
      types = typesOf(schema.header);
      Message batch = new Message(schema.end, RECORD_BATCH);
      file.check(batch.header.field(3) == 0, "it is compressed");
      rows = batch.header.getLong(0);
      offsets = new long[count(batch.header, 2)];
      lengths = new long[offsets.length];
      int begin = batch.header.vector(2);
      for (int i = 0; i < offsets.length; i++) {
        long offset = batch.header.buffer.getLong(begin + 16 * i);
        lengths[i] = batch.header.buffer.getLong(begin + 16 * i + 8);
        file.check(
            offset >= 0 && offset % 8 == 0 && lengths[i] >= 0
                && offset <= batch.bodyLength - lengths[i],
            "a buffer is outside of the batch: ", i);
        offsets[i] = batch.body + offset;
      }
    } catch (IndexOutOfBoundsException e) {
      throw TableError.damaged(file.name, "an offset is outside of its metadata");
    }
  }

  int buffers() {
    return offsets.length;
  }

  /** Whether a buffer is there at all; one of a column without nulls is not. */
  boolean has(int buffer) {
    return lengths[buffer] > 0;
  }

  /** Where a buffer begins, which must have so many bytes at least. */
  long offset(int buffer, long least) {
    file.check(lengths[buffer] >= least, "a buffer is too short: ", buffer);
    return offsets[buffer];
  }

  long length(int buffer) {
    return lengths[buffer];
  }

  private int[] typesOf(Table schema) {
    int[] found = new int[count(schema, 1)];
    for (int i = 0; i < found.length; i++) {
      Table field = new Table(schema.buffer, schema.vector(1) + 4 * i);
      int kind = field.buffer.get(field.required(2));
      Table type = new Table(field.buffer, field.required(3));
      int first = type.getShort(0, kind == ColumnType.DATE ? 1 : 0);
      int second = kind == ColumnType.DECIMAL ? type.getShort(1, 0) : 0;
      found[i] = ColumnType.arrow(kind, first, second);
    }
    return found;
  }

  private int count(Table table, int field) {
    int found = table.buffer.getInt(table.vector(field) - 4);
    file.check(found >= 0 && found < MOST, "it has too many columns");
    return found;
  }

  /** A message with its metadata and its body. */
  private final class Message {
    final Table header;
    final long body;
    final long bodyLength;
    final long end;

    Message(long position, int kind) {
      boolean begins =
          position <= file.size - 8 && file.getInt(position) == CONTINUATION;
      file.check(begins, "a message does not begin where it must");
      int length = file.getInt(position + 4);
      body = position + 8 + length;
      file.check(
          length > 0 && length < LARGEST && body <= file.size && body % 8 == 0,
          "a message is missing");
      byte[] metadata = new byte[length];
      Platform.copyMemory(
          null, file.address(position + 8), metadata, Platform.BYTE_ARRAY_OFFSET, length);
      Table message = new Table(ByteBuffer.wrap(metadata).order(ByteOrder.LITTLE_ENDIAN), 0);
      int type = message.field(1);
      file.check(
          type != 0 && metadata[type] == kind, "it has other messages than bsjoin writes");
      header = new Table(message.buffer, message.required(2));
      bodyLength = message.getLong(3);
      file.check(bodyLength >= 0 && bodyLength <= file.size - body, "the body is outside of it");
      end = body + bodyLength;
    }
  }

  /** A table of a flatbuffer: fields that may be absent, found through its vtable. */
  private static final class Table {
    final ByteBuffer buffer; // which refuses to be read outside of it
    private final int position;

    /** The table that the offset at some place leads to. */
    Table(ByteBuffer buffer, int place) {
      this.buffer = buffer;
      position = place + buffer.getInt(place);
    }

    /** The position of a field; 0 if it is absent. */
    int field(int number) {
      int vtable = position - buffer.getInt(position);
      int at = 4 + 2 * number;
      int fields = Short.toUnsignedInt(buffer.getShort(vtable)); // where they end
      int offset = at + 2 > fields ? 0 : Short.toUnsignedInt(buffer.getShort(vtable + at));
      return offset == 0 ? 0 : position + offset;
    }

    int required(int field) {
      int at = field(field);
      if (at == 0) {
        throw new IndexOutOfBoundsException(field);
      }
      return at;
    }

    int getShort(int field, int otherwise) {
      int at = field(field);
      return at == 0 ? otherwise : buffer.getShort(at);
    }

    long getLong(int field) {
      int at = field(field);
      return at == 0 ? 0 : buffer.getLong(at);
    }

    /** Where the elements of a vector begin, behind their number. */
    int vector(int field) {
      int at = required(field);
      return at + buffer.getInt(at) + 4;
    }
  }
}
