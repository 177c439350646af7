package bsjoin.jvm.functions;

import bsjoin.jvm.spark.Function;
import bsjoin.jvm.storage.TableError;
import com.fasterxml.jackson.databind.node.MissingNode;
import java.util.Locale;
import org.apache.spark.sql.types.DataTypes;
import org.apache.spark.unsafe.types.UTF8String;

/**
 * {@code bsjoin.network_start(text)} and {@code bsjoin.network_end(text)}: the first and the last
 * address of a network; with {@code try_} before the name null where the text is none.
 */
public final class NetworkBound extends Function<byte[]> {
  private static final String START = "network_start";
  private static final String END = "network_end";
  private static final String TRY = "try_";
  private static final int SHOWN = 100; // characters of a text in an error

  private final String function;
  private final boolean isLast;
  private final boolean isNullOnError;

  private NetworkBound(String function) {
    super(function, MissingNode.getInstance(), DataTypes.BinaryType, DataTypes.StringType);
    this.function = function;
    isNullOnError = function.startsWith(TRY);
    isLast = function.endsWith(END);
  }

  /** The function of a name; null for any other name. */
  public static NetworkBound of(String name) {
    String function = name.toLowerCase(Locale.ROOT);
    String bare = function.startsWith(TRY) ? function.substring(TRY.length()) : function;
    return bare.equals(START) || bare.equals(END) ? new NetworkBound(function) : null;
  }

  @Override
  public String name() {
    return "bsjoin." + function;
  }

  @Override
  public boolean isResultNullable() {
    return true;
  }

  public byte[] invoke(UTF8String text) {
    if (text == null) {
      return null;
    }
    byte[] found = NetworkText.bound(text.getBytes(), isLast);
    if (found == null && !isNullOnError) {
      String shown = text.toString();
      shown = shown.length() > SHOWN ? shown.substring(0, SHOWN) + "..." : shown;
      throw TableError.of(
          "DataError",
          "bsjoin." + function + ": '" + shown + "' is no address and no network. Give IPv4 as "
              + "192.0.2.7 or 10.0.0.0/8, IPv6 as 2001:db8::1 or 2001:db8::/32, without spaces, zone "
              + "ids and leading zeros; on_error=\"null\", in SQL bsjoin." + TRY + function
              + ", gives null for such texts");
    }
    return found;
  }
}
