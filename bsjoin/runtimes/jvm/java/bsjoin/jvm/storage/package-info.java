/**
 * A stored table's files: manifests and versions, mapped segments, their indexes and columns. See
 * {@code bsjoin/storage/format.md}.
 */
package bsjoin.jvm.storage;
