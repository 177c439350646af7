package bsjoin.jvm.functions;

import java.util.Arrays;

/**
 * Addresses and networks as texts, read as {@code bsjoin/values/networks.py} reads them. Nothing asks
 * a name server: only digits are read.
 */
final class NetworkText {
  private static final int IPV4 = 4;
  private static final int IPV6 = 16;
  private static final int MAPPED = IPV6 - IPV4; // bytes before an IPv4 address in an IPv6 one

  private final byte[] text;
  private final byte[] address = new byte[IPV6];

  private NetworkText(byte[] text) {
    this.text = text;
  }

  /** The first or the last address of a network, in 16 bytes; null if the text is none. */
  static byte[] bound(byte[] text, boolean isLast) {
    return new NetworkText(text).bound(isLast);
  }

  private byte[] bound(boolean isLast) {
    int slash = next('/', 0, text.length);
    int size; // of the address, in bytes
    if (next(':', 0, slash) < slash) {
      size = IPV6;
      if (!readIpv6(slash)) {
        return null;
      }
    } else {
      size = IPV4;
      if (!readIpv4(0, slash, MAPPED)) {
        return null;
      }
      Arrays.fill(address, MAPPED - 2, MAPPED, (byte) 0xff);
    }
    int kept = 8 * size; // bits that all addresses of the network share
    if (slash < text.length) {
      kept = number(slash + 1, text.length, 8 * size);
      if (kept < 0) {
        return null;
      }
    }
    kept += 8 * (IPV6 - size);
    for (int i = kept / 8; i < IPV6; i++) {
      int free = 0xff >> Math.max(0, kept - 8 * i);
      address[i] = (byte) (isLast ? address[i] | free : address[i] & ~free);
    }
    return address;
  }

  /** The place of a character; {@code end} if it is not there. */
  private int next(char wanted, int begin, int end) {
    int at = begin;
    while (at < end && text[at] != wanted) {
      at++;
    }
    return at;
  }

  /** A decimal number without leading zeros; -1 for any other text, and for a larger one. */
  private int number(int begin, int end, int most) {
    int found = 0;
    for (int at = begin; at < end; at++) {
      int digit = text[at] - '0';
      if (digit < 0 || digit > 9 || found == 0 && at > begin) {
        return -1;
      }
      found = 10 * found + digit;
      if (found > most) {
        return -1;
      }
    }
    return begin < end ? found : -1;
  }

  private boolean readIpv4(int begin, int end, int place) {
    int at = begin;
    for (int i = 0; i < IPV4; i++) {
      int stop = i == IPV4 - 1 ? end : next('.', at, end);
      int octet = number(at, stop, 255);
      if (octet < 0) {
        return false;
      }
      address[place + i] = (byte) octet;
      at = stop + 1;
    }
    return true;
  }

  private boolean readIpv6(int end) {
    int count = 0; // bytes that are read
    int gap = -1; // where the zeros are that "::" stands for
    int at = 0;
    if (text[0] == ':') {
      if (end < 2 || text[1] != ':') {
        return false;
      }
      gap = 0;
      at = 2;
    }
    while (at < end) {
      int stop = next(':', at, end);
      if (stop == end && next('.', at, end) < end) {
        if (count > MAPPED || !readIpv4(at, end, count)) {
          return false;
        }
        count += IPV4;
      } else {
        int group = group(at, stop);
        if (group < 0 || count == IPV6) {
          return false;
        }
        address[count++] = (byte) (group >> 8);
        address[count++] = (byte) group;
      }
      at = stop + 1;
      if (at < end && text[at] == ':') {
        if (gap >= 0) {
          return false;
        }
        gap = count;
        at++;
      } else if (at == end) {
        return false; // a colon at the end
      }
    }
    if (gap < 0) {
      return count == IPV6;
    }
    if (count == IPV6) {
      return false; // there is nothing that it could stand for
    }
    int behind = count - gap;
    System.arraycopy(address, gap, address, IPV6 - behind, behind);
    Arrays.fill(address, gap, IPV6 - behind, (byte) 0);
    return true;
  }

  /** A number of one to four hexadecimal digits; -1 for any other text. */
  private int group(int begin, int end) {
    int found = end - begin > 4 || begin == end ? -1 : 0;
    for (int at = begin; at < end && found >= 0; at++) {
      int digit = Character.digit((char) (text[at] & 0xff), 16);
      found = digit < 0 || text[at] < 0 ? -1 : 16 * found + digit;
    }
    return found;
  }
}
