package bsjoin.jvm.kafka;

import bsjoin.jvm.spark.Scala;
import java.io.Serializable;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import org.apache.spark.TaskContext;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.catalyst.expressions.Attribute;
import org.apache.spark.sql.execution.metric.SQLMetric;
import org.apache.spark.unsafe.types.UTF8String;
import org.apache.spark.util.TaskCompletionListener;
import scala.collection.Iterator;
import scala.runtime.AbstractFunction2;

/** Counts the rows of a partition while they pass by, and reports them when its task ends. */
public final class RoutedRows
    extends AbstractFunction2<Object, Iterator<InternalRow>, Iterator<InternalRow>>
    implements Serializable {
  private final SQLMetric[] counted; // rows that are found, recovered, waiting, expired
  private final UTF8String topic;
  private final UTF8String retry;
  private final int place; // of the column with the topic
  private final int headers;

  RoutedRows(SQLMetric[] counted, UTF8String topic, UTF8String retry) {
    this(counted, topic, retry, -1, -1);
  }

  private RoutedRows(
      SQLMetric[] counted, UTF8String topic, UTF8String retry, int place, int headers) {
    this.counted = counted;
    this.topic = topic;
    this.retry = retry;
    this.place = place;
    this.headers = headers;
  }

  /** The same of rows with these columns. */
  RoutedRows of(List<Attribute> columns) {
    List<String> names = columns.stream().map(Attribute::name).toList();
    return new RoutedRows(
        counted, topic, retry, names.indexOf("topic"), names.indexOf("headers"));
  }

  Map<String, SQLMetric> metrics() {
    Map<String, SQLMetric> all = new LinkedHashMap<>();
    for (SQLMetric one : counted) {
      all.put(one.name().get(), one);
    }
    return all;
  }

  @Override
  public Iterator<InternalRow> apply(Object partition, Iterator<InternalRow> rows) {
    long[] counts = new long[counted.length];
    TaskCompletionListener end = ended -> report(counts);
    TaskContext.get().addTaskCompletionListener(end);
    return rows.map(
        Scala.function(
            row -> {
              count(row, counts);
              return row;
            }));
  }

  @Override
  public String toString() {
    return "to " + topic + ", " + retry;
  }

  private void report(long[] counts) {
    for (int i = 0; i < counts.length; i++) {
      counted[i].add(counts[i]);
    }
  }

  private void count(InternalRow row, long[] counts) {
    UTF8String to = row.getUTF8String(place);
    if (to.equals(topic)) {
      counts[0]++;
      counts[1] += Routed.place(row.getArray(headers), Routed.WAITED) < 0 ? 0 : 1;
    } else {
      counts[to.equals(retry) ? 2 : 3]++;
    }
  }
}
