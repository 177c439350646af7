/**
 * Spark's own classes in other words: expressions, operators and functions in Java, the timestamp of a
 * micro-batch, settings.
 */
package bsjoin.jvm.spark;
