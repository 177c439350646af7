package bsjoin.jvm.storage;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.io.IOException;
import java.io.UncheckedIOException;
import java.nio.charset.StandardCharsets;
import java.nio.file.FileSystemException;
import java.nio.file.Files;
import java.nio.file.NoSuchFileException;
import java.nio.file.Path;
import java.nio.file.Paths;
import java.nio.file.attribute.BasicFileAttributes;
import java.util.ArrayList;
import java.util.List;
import java.util.regex.Pattern;
import java.util.stream.Stream;
import java.util.stream.StreamSupport;

/**
 * Where the files of a table are: a folder, or a remote location whose files are copied to this
 * host; see {@code bsjoin/storage/location.py}.
 */
public abstract class Storage {
  private static final long LARGEST = 32L << 20;
  private static final Pattern MANIFEST = Pattern.compile("[0-9]{8,9}\\.json");

  /** Folder or URL, for errors. */
  final String name;

  private Storage(String name) {
    this.name = name;
  }

  /** The storage at a folder or a URL, for which these commands of Python are tried. */
  public static Storage of(String path, List<String> python) {
    return path.contains("://") ? new Remote(path, python) : new Local(path);
  }

  /** The numbers of the versions that are there, ascending. */
  abstract int[] numbers();

  /** The names of the marks that say how fresh versions are, see {@link Freshness}. */
  abstract List<String> freshMarks();

  /** The content of the manifest of a version; null if it is not there (any more). */
  abstract String manifest(int number);

  public abstract Mapping map(StoredFile file);

  /** What tells the file of a manifest from another of the same name; null where nothing does. */
  abstract Object stamp(int number);

  /** Remove copies of old versions on this host, but not of these files. */
  public void keep(Iterable<String> files) {}

  public final boolean isRemote() {
    return this instanceof Remote;
  }

  /** Whether the table is known to be removed. */
  boolean isRemoved() {
    return false;
  }

  final String nameOf(String file) {
    return "the file '" + file + "' of the table in '" + name + "'";
  }

  /** The names of the files in a folder, none if that is not there; the texts are for an error. */
  public static List<String> list(Path folder, String what, String where) {
    try (Stream<Path> entries = Files.list(folder)) {
      return entries.map(entry -> entry.getFileName().toString()).toList();
    } catch (NoSuchFileException e) {
      return List.of();
    } catch (IOException e) {
      throw TableError.inaccessible("list " + what, where, e);
    } catch (UncheckedIOException e) {
      throw TableError.inaccessible("list " + what, where, e.getCause());
    }
  }

  private static final class Local extends Storage {
    private final Path folder;

    Local(String path) {
      super(path);
      folder = Paths.get(path);
    }

    private List<String> list(String part) {
      return list(folder.resolve(part), "'" + part + "'", name);
    }

    @Override
    int[] numbers() {
      return list(Manifest.FOLDER).stream()
          .filter(name -> MANIFEST.matcher(name).matches())
          .mapToInt(name -> Integer.parseInt(name.substring(0, name.length() - 5)))
          .sorted()
          .toArray();
    }

    @Override
    List<String> freshMarks() {
      return list(Freshness.FOLDER);
    }

    @Override
    String manifest(int number) {
      String file = Manifest.name(number);
      try {
        Path path = checkedInside(file);
        if (Files.size(path) > LARGEST) {
          throw TableError.damaged(nameOf(file), "it is too large for a manifest");
        }
        return new String(Files.readAllBytes(path), StandardCharsets.UTF_8);
      } catch (NoSuchFileException e) {
        return null;
      } catch (IOException e) {
        throw TableError.inaccessible("read '" + file + "'", name, e);
      }
    }

    @Override
    Object stamp(int number) {
      try {
        Path path = folder.resolve(Manifest.name(number));
        BasicFileAttributes found = Files.readAttributes(path, BasicFileAttributes.class);
        return List.of(found.lastModifiedTime(), String.valueOf(found.fileKey()), found.size());
      } catch (IOException e) {
        return null;
      }
    }

    @Override
    public Mapping map(StoredFile file) {
      try {
        return Mapping.of(checkedInside(file.name()), nameOf(file.name()), file.size());
      } catch (NoSuchFileException e) {
        throw TableError.of(
            "DamagedTableError",
            nameOf(file.name()) + " is missing; was the version vacuumed while it was in use? Build "
                + "the table again");
      } catch (IOException e) {
        throw TableError.inaccessible("read '" + file.name() + "'", name, e);
      }
    }

    /** Refuse a file that leads out of the table's folder, and one that is a pipe, say. */
    private Path checkedInside(String name) throws IOException {
      Path file = folder.resolve(name);
      Path real = file.toRealPath();
      if (!real.startsWith(folder.toRealPath())) {
        throw TableError.of(
            "StoreError",
            "'" + file + "' is a link to '" + real + "', which is outside of '" + folder + "'. The "
                + "content of a table's folder is not trusted to refer to other files: remove the "
                + "link, or move the whole folder and link that");
      }
      if (Files.isDirectory(real)) {
        throw new FileSystemException(file.toString(), null, "Is a directory");
      }
      if (!Files.isRegularFile(real)) {
        throw TableError.of(
            "StoreError", "'" + file + "' is neither a file nor a folder: remove it");
      }
      return file;
    }

    @Override
    boolean isRemoved() {
      return !Files.exists(folder);
    }
  }

  private static final class Remote extends Storage {
    private final CopyService service;
    private volatile JsonNode listed = CopyService.JSON.createObjectNode(); // the last list of versions

    Remote(String url, List<String> python) {
      super(url);
      service = new CopyService(python);
    }

    @Override
    int[] numbers() {
      listed = service.ask(request("numbers"));
      return StreamSupport.stream(listed.path("numbers").spliterator(), false)
          .mapToInt(JsonNode::asInt)
          .toArray();
    }

    /** Of the last list: to ask the store each time would take longer than a look-up. */
    @Override
    Object stamp(int number) {
      return listed.path("stamps").get(String.valueOf(number));
    }

    @Override
    List<String> freshMarks() {
      List<String> names = new ArrayList<>();
      service.ask(request("fresh")).path("names").forEach(one -> names.add(one.asText()));
      return names;
    }

    @Override
    String manifest(int number) {
      return service.ask(request("manifest").put("number", number)).path("content").textValue();
    }

    @Override
    public Mapping map(StoredFile file) {
      ObjectNode request = request("file").put("name", file.name());
      request.put("size", file.size()).put("checksum", file.checksum());
      try {
        return service.map(request, nameOf(file.name()), file.size());
      } catch (IOException e) {
        throw TableError.inaccessible("read the copy of '" + file.name() + "'", name, e);
      }
    }

    @Override
    public void keep(Iterable<String> files) {
      ObjectNode request = request("keep");
      ArrayNode names = request.putArray("names");
      files.forEach(names::add);
      service.ask(request);
    }

    private ObjectNode request(String what) {
      return CopyService.JSON.createObjectNode().put("url", name).put("what", what);
    }
  }
}
