/**
 * Joins and range conditions that the index of a stored table answers, as Spark's planner meets
 * them.
 */
package bsjoin.jvm.planner;
