package bsjoin.jvm.storage;

import java.io.Serializable;

/**
 * A file of a stored table, as the manifest has it.
 *
 * @param name in the folder of the table
 * @param size in bytes
 * @param checksum which a copy is compared with
 */
public record StoredFile(String name, long size, String checksum) implements Serializable {}
