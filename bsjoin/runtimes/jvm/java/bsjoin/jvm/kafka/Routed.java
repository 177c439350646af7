package bsjoin.jvm.kafka;

import bsjoin.jvm.kafka.RouteCounts.Outcome;
import bsjoin.jvm.spark.BatchFigures;
import bsjoin.jvm.spark.Counting;
import bsjoin.jvm.spark.Function;
import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.nio.charset.StandardCharsets;
import org.apache.spark.SparkContext;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.catalyst.expressions.GenericInternalRow;
import org.apache.spark.sql.catalyst.util.ArrayData;
import org.apache.spark.sql.catalyst.util.GenericArrayData;
import org.apache.spark.sql.types.DataType;
import org.apache.spark.sql.types.DataTypes;
import org.apache.spark.sql.types.StructType;
import org.apache.spark.unsafe.types.UTF8String;

/**
 * What {@code bsjoin.kafka.route} makes of the headers of a record, whether it is found, and its
 * timestamp. {@code kafka.py} says the same in SQL, which Spark analyses in each micro-batch: a call
 * it does not look into.
 */
public abstract class Routed<R> extends Function<R> {
  static final UTF8String WAITING = UTF8String.fromString("bsjoin-waiting-since");
  static final UTF8String WAITED = UTF8String.fromString("bsjoin-waited-since"); // that is found

  private static final StructType HEADER =
      new StructType().add("key", DataTypes.StringType).add("value", DataTypes.BinaryType);
  private static final DataType HEADERS = DataTypes.createArrayType(HEADER, true);

  private Routed(String spec, JsonNode node, DataType result, DataType... inputs) {
    super(spec, node, result, inputs);
  }

  private Routed(Routed<R> of) {
    super(of);
  }

  /** Where the first header of a name is; -1 for none. */
  static int place(ArrayData headers, UTF8String name) {
    for (int i = 0; i < headers.numElements(); i++) {
      InternalRow header = headers.getStruct(i, 2);
      if (header != null && name.equals(header.getUTF8String(0))) {
        return i;
      }
    }
    return -1;
  }

  /** Since when, in milliseconds; null if that is not told, or by something else than a number. */
  private static Long since(ArrayData headers, int mark) {
    byte[] text = headers.getStruct(mark, 2).getBinary(1);
    try {
      return text == null ? null : (Long) UTF8String.fromBytes(text).toLongExact();
    } catch (NumberFormatException e) {
      return null;
    }
  }

  /** The headers of the row that is sent. */
  public static final class Headers extends Routed<ArrayData> {
    public Headers(String spec, JsonNode node) {
      super(spec, node, HEADERS, HEADERS, DataTypes.BooleanType, DataTypes.TimestampType);
    }

    @Override
    public String name() {
      return "bsjoin_routed_headers";
    }

    public ArrayData invoke(ArrayData given, boolean found, long us) {
      ArrayData headers = given == null ? new GenericArrayData(new Object[0]) : given;
      int mark = place(headers, WAITING);
      if (mark < 0 && found) {
        return headers;
      }
      int count = headers.numElements();
      Object[] all = new Object[mark < 0 ? count + 1 : count];
      for (int i = 0; i < count; i++) {
        all[i] = headers.isNullAt(i) ? null : headers.getStruct(i, 2);
      }
      if (mark < 0) {
        all[count] = header(WAITING, "");
      } else {
        Long since = since(headers, mark);
        String text = String.valueOf(since == null ? Math.floorDiv(us, 1000) : since);
        all[mark] = header(found ? WAITED : WAITING, text);
      }
      return new GenericArrayData(all);
    }

    private static InternalRow header(UTF8String name, String text) {
      return new GenericInternalRow(
          new Object[] {name, text.getBytes(StandardCharsets.US_ASCII)});
    }
  }

  /** The topic that the row is sent to; it may count. */
  public static final class Topic extends Routed<UTF8String> implements Counting {
    private final UTF8String topic;
    private final UTF8String retry;
    private final UTF8String dead;
    private final long patienceMs;
    private final long call;
    private final RouteCounts counts; // null: of a plan that is not executed

    public Topic(String spec, JsonNode node) {
      super(
          spec, node, DataTypes.StringType, HEADERS, DataTypes.BooleanType, DataTypes.TimestampType,
          DataTypes.IntegerType);
      topic = UTF8String.fromString(node.path("topic").asText());
      retry = UTF8String.fromString(node.path("retry").asText());
      dead = UTF8String.fromString(node.path("dead").asText());
      patienceMs = node.path("patience_ms").asLong();
      call = node.path("call").asLong();
      counts = null;
    }

    private Topic(Topic of, RouteCounts counts) {
      super(of);
      topic = of.topic;
      retry = of.retry;
      dead = of.dead;
      patienceMs = of.patienceMs;
      call = of.call;
      this.counts = counts;
    }

    /** Which call it is, for its figures. */
    private void describe(ObjectNode figures) {
      figures.put("topic", topic.toString()).put("retry", retry.toString()).put("call", call);
    }

    @Override
    public Topic counting() {
      if (counts != null) {
        return this;
      }
      SparkContext context = SparkContext.getOrCreate();
      RouteCounts counts = new RouteCounts(context);
      BatchFigures.add("routes", BatchFigures.current(context), this::describe, counts::describe);
      return new Topic(this, counts);
    }

    @Override
    public String name() {
      return "bsjoin_routed_topic";
    }

    /** The last is the partition of the row, for the counts. */
    public UTF8String invoke(ArrayData headers, boolean found, long us, int partition) {
      int mark = headers == null ? -1 : place(headers, WAITING);
      if (found) {
        add(partition, Outcome.FOUND);
        if (mark >= 0 || (headers != null && place(headers, WAITED) >= 0)) {
          add(partition, Outcome.RECOVERED);
        }
        return topic;
      }
      Long since = mark < 0 ? null : since(headers, mark);
      // A header of somebody else's making may have any number: no difference of that is taken.
      boolean isLate = since != null && since < Math.floorDiv(us, 1000) - patienceMs;
      add(partition, isLate ? Outcome.EXPIRED : Outcome.WAITING);
      return isLate ? dead : retry;
    }

    private void add(int partition, Outcome outcome) {
      if (counts != null) {
        counts.add(partition, outcome);
      }
    }
  }
}
