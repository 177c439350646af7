/**
 * The operator of a join by the index: what finds rows, what reads them, generated code, and what
 * is counted.
 */
package bsjoin.jvm.lookup;
