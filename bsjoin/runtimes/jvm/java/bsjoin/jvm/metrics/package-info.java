/**
 * Figures of the driver among those of Spark's metrics system. Only Python calls it, and so a Spark
 * that lacks something of this plans joins as any other.
 */
package bsjoin.jvm.metrics;
