package bsjoin.jvm.spark;

import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.Map;
import java.util.function.Function;
import scala.Function1;
import scala.collection.immutable.Seq;
import scala.jdk.javaapi.CollectionConverters;

public final class Scala {
  private Scala() {}

  public static <T> Seq<T> seq(List<? extends T> list) {
    return CollectionConverters.asScala(new ArrayList<T>(list)).toList();
  }

  @SafeVarargs
  public static <T> Seq<T> seq(T... items) {
    return seq(Arrays.asList(items));
  }

  /** A function of Scala: a lambda of Java is none for the compiler where it is overloaded. */
  public static <T, R> Function1<T, R> function(Function<T, R> function) {
    return function::apply;
  }

  @SuppressWarnings("unchecked")
  public static <K, V> scala.collection.immutable.Map<K, V> map(Map<K, V> map) {
    return (scala.collection.immutable.Map<K, V>)
        scala.collection.immutable.Map$.MODULE$.from(CollectionConverters.asScala(map));
  }

  public static <T> List<T> list(scala.collection.Seq<T> seq) {
    return CollectionConverters.asJava(seq);
  }
}
