package bsjoin.jvm.storage;

import java.io.Serializable;
import java.util.List;

/**
 * Which stored table plans and tasks mean.
 *
 * @param path the folder or URL, without credentials
 * @param epoch when its newest version was published as the query was planned: tells it from an
 *     earlier table at the same path
 * @param maxStalenessUs how long before a micro-batch its source must have been read at the latest,
 *     in microseconds; 0 for any time
 * @param python the commands of Python to try, for a URL
 */
public record TableIdentity(String path, long epoch, long maxStalenessUs, List<String> python)
    implements Serializable {}
