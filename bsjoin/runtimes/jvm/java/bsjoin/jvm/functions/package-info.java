/** Functions of columns, which SQL and {@code bsjoin.functions} call. */
package bsjoin.jvm.functions;
