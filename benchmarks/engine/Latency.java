package bsjoin.benchmarks;

import java.util.concurrent.ConcurrentLinkedQueue;
import org.apache.spark.sql.ForeachWriter;
import org.apache.spark.sql.Row;

/** A sink that notes how long after its birth each row arrives; source and sink are one JVM. */
public class Latency extends ForeachWriter<Row> {
  private static final ConcurrentLinkedQueue<Long> TIMES = new ConcurrentLinkedQueue<>();

  @Override
  public boolean open(long partition, long epoch) {
    return true;
  }

  @Override
  public void process(Row row) {
    TIMES.add(System.nanoTime() - row.<Long>getAs("born"));
  }

  @Override
  public void close(Throwable error) {}

  /** The nanoseconds of the rows since the last call, separated by blanks. */
  public static String taken() {
    StringBuilder all = new StringBuilder();
    for (Long time = TIMES.poll(); time != null; time = TIMES.poll()) {
      all.append(time).append(' ');
    }
    return all.toString();
  }
}
