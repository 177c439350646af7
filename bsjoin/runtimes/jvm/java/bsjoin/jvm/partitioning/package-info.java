/**
 * Rows of a stream to partitions, by the rule that a micro-batch uses.
 */
package bsjoin.jvm.partitioning;
