/** What {@code bsjoin.kafka.route} counts. */
package bsjoin.jvm.kafka;
