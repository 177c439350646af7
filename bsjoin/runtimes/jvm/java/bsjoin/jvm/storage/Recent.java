package bsjoin.jvm.storage;

import java.util.LinkedHashMap;
import java.util.Map;

/** A map of the entries that were used last, the last one at the end. */
public final class Recent<K, V> extends LinkedHashMap<K, V> {
  private final int most;

  public Recent(int most) {
    super(16, 0.75f, true);
    this.most = most;
  }

  @Override
  protected boolean removeEldestEntry(Map.Entry<K, V> eldest) {
    return size() > most;
  }
}
