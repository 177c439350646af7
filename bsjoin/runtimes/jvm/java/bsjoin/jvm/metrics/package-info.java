/**
 * Figures of the driver and of executors among those of Spark's metrics system. Python calls it, and
 * joins know it by its name alone: so a Spark that lacks something of this plans and runs them as any
 * other.
 */
package bsjoin.jvm.metrics;
