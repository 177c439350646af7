package bsjoin.jvm;

import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import scala.collection.immutable.Seq;
import scala.jdk.javaapi.CollectionConverters;

/** Collections of Scala. */
final class Scala {
  private Scala() {}

  static <T> Seq<T> seq(List<? extends T> list) {
    return CollectionConverters.asScala(new ArrayList<T>(list)).toList();
  }

  @SafeVarargs
  static <T> Seq<T> seq(T... items) {
    return seq(Arrays.asList(items));
  }

  static <T> List<T> list(scala.collection.Seq<T> seq) {
    return CollectionConverters.asJava(seq);
  }
}
