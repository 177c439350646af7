package bsjoin.jvm;

import java.io.BufferedInputStream;
import java.io.DataInputStream;
import java.io.IOException;
import java.io.InputStream;
import java.lang.reflect.Modifier;
import java.util.ArrayList;
import java.util.HashSet;
import java.util.List;
import java.util.Set;

/** What a compiled class refers to, and what it declares; names are as in the file, with slashes. */
final class ClassFile {
  private static final int LONG = 5;
  private static final int DOUBLE = 6;

  final boolean isAbstract; // or an interface
  final List<String> parents = new ArrayList<>(); // the superclass and the interfaces
  final Set<String> classes = new HashSet<>();
  final List<String[]> members = new ArrayList<>(); // referred to: class, and name with descriptor
  final Set<String> declared = new HashSet<>(); // fields and methods: name with descriptor
  final Set<String> unimplemented = new HashSet<>(); // methods that are declared abstract

  private final Object[] constants; // texts; numbers of texts, for others

  private ClassFile(DataInputStream in) throws IOException {
    in.readLong(); // what begins each file, and its version
    constants = new Object[in.readUnsignedShort()];
    List<int[]> references = new ArrayList<>();
    List<Integer> named = new ArrayList<>();
    for (int i = 1; i < constants.length; i++) {
      int kind = in.readUnsignedByte();
      switch (kind) {
        case 1: // a text
          constants[i] = in.readUTF();
          break;
        case 3: // an int
        case 4: // a float
        case 17: // what an invokedynamic calls
        case 18:
          in.readInt();
          break;
        case LONG:
        case DOUBLE:
          in.readLong();
          i++; // they count twice
          break;
        case 7: // a class
          constants[i] = new int[] {in.readUnsignedShort()};
          named.add(i);
          break;
        case 9: // a field
        case 10: // a method
        case 11: // one of an interface
          references.add(new int[] {in.readUnsignedShort(), in.readUnsignedShort()});
          break;
        case 12: // a name and a descriptor
          constants[i] = new int[] {in.readUnsignedShort(), in.readUnsignedShort()};
          break;
        case 15: // a handle of a method
          in.readUnsignedByte();
          in.readUnsignedShort();
          break;
        default: // a string, the type of a method, a module, a package
          in.readUnsignedShort();
      }
    }
    for (int place : named) {
      String name = name(place);
      if (!name.startsWith("[")) {
        classes.add(name);
      }
    }
    for (int[] reference : references) {
      int[] member = (int[]) constants[reference[1]];
      members.add(
          new String[] {
            name(reference[0]), (String) constants[member[0]] + constants[member[1]]
          });
    }
    isAbstract = Modifier.isAbstract(in.readUnsignedShort());
    in.readUnsignedShort(); // its own name
    addParent(in.readUnsignedShort());
    for (int left = in.readUnsignedShort(); left > 0; left--) {
      addParent(in.readUnsignedShort());
    }
    readMembers(in); // fields
    readMembers(in); // methods
  }

  private String name(int place) {
    return (String) constants[((int[]) constants[place])[0]];
  }

  private void addParent(int place) {
    if (place != 0) {
      parents.add(name(place));
    }
  }

  private void readMembers(DataInputStream in) throws IOException {
    for (int left = in.readUnsignedShort(); left > 0; left--) {
      boolean isOpen = Modifier.isAbstract(in.readUnsignedShort());
      String name = (String) constants[in.readUnsignedShort()];
      name += constants[in.readUnsignedShort()];
      declared.add(name);
      if (isOpen) {
        unimplemented.add(name);
      }
      for (int attributes = in.readUnsignedShort(); attributes > 0; attributes--) {
        in.readUnsignedShort();
        for (long bytes = in.readInt() & 0xffffffffL; bytes > 0; ) {
          bytes -= in.skipBytes((int) Math.min(bytes, Integer.MAX_VALUE));
        }
      }
    }
  }

  /** The class of a name, without loading it; null if there is none. */
  static ClassFile of(ClassLoader loader, String name) throws IOException {
    try (InputStream in = loader.getResourceAsStream(name + ".class")) {
      return in == null
          ? null
          : new ClassFile(new DataInputStream(new BufferedInputStream(in, 1 << 16)));
    }
  }
}
