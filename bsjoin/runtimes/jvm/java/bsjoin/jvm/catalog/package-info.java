/**
 * Stored tables in Spark's catalog, and the scan that reads them whole.
 */
package bsjoin.jvm.catalog;
