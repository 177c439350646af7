package bsjoin.jvm;

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
import java.util.Arrays;
import java.util.List;
import java.util.regex.Pattern;
import java.util.stream.Collectors;
import java.util.stream.Stream;

/**
 * Where the files of a table are: a folder, or a remote location whose files are copied to this
 * host; see {@code bsjoin/store/location.py}.
 */
abstract class Storage {
  private static final long LARGEST = 32L << 20;
  private static final Pattern MANIFEST = Pattern.compile("[0-9]{8,9}\\.json");

  /** Folder or URL, for errors. */
  final String name;

  private Storage(String name) {
    this.name = name;
  }

  /**
   * The storage at a path.
   *
   * @param path a folder or a URL
   * @param python the commands of Python to try, for a URL
   */
  static Storage of(String path, List<String> python) {
    return path.contains("://") ? new Remote(path, python) : new Local(path);
  }

  /** The numbers of the versions that are there, ascending. */
  abstract int[] numbers();

  /** The names of the marks that say how fresh versions are, see {@link Freshness}. */
  abstract List<String> freshMarks();

  /** The content of the manifest of a version; null if it is not there (any more). */
  abstract String manifest(int number);

  /** What tells the file of a manifest from another of the same name; null where nothing does. */
  abstract Object stamp(int number);

  /**
   * Map a file.
   *
   * @param file its name
   * @param size its size in bytes, as the manifest has it
   * @param checksum its checksum, which a copy is compared with
   */
  abstract Mapping map(String file, long size, String checksum);

  /** Remove copies of old versions on this host, but not of these files. */
  abstract void keep(Iterable<String> files);

  /** Whether the files are copied to this host. */
  abstract boolean isRemote();

  /** Whether the table is known to be removed. */
  abstract boolean isRemoved();

  /** What an error calls a file. */
  final String nameOf(String file) {
    return "the file '" + file + "' of the table in '" + name + "'";
  }

  private static final class Local extends Storage {
    private final Path folder;

    Local(String path) {
      super(path);
      folder = Paths.get(path);
    }

    @Override
    int[] numbers() {
      try (Stream<Path> entries = Files.list(folder.resolve(Manifest.FOLDER))) {
        return entries
            .map(entry -> entry.getFileName().toString())
            .filter(name -> MANIFEST.matcher(name).matches())
            .mapToInt(name -> Integer.parseInt(name.substring(0, name.length() - 5)))
            .sorted()
            .toArray();
      } catch (NoSuchFileException e) {
        return new int[0];
      } catch (IOException e) {
        throw TableError.inaccessible("list '" + Manifest.FOLDER + "'", name, e);
      } catch (UncheckedIOException e) {
        throw TableError.inaccessible("list '" + Manifest.FOLDER + "'", name, e.getCause());
      }
    }

    @Override
    List<String> freshMarks() {
      try (Stream<Path> entries = Files.list(folder.resolve(Freshness.FOLDER))) {
        return entries.map(entry -> entry.getFileName().toString()).collect(Collectors.toList());
      } catch (NoSuchFileException e) {
        return new ArrayList<>();
      } catch (IOException e) {
        throw TableError.inaccessible("list '" + Freshness.FOLDER + "'", name, e);
      } catch (UncheckedIOException e) {
        throw TableError.inaccessible("list '" + Freshness.FOLDER + "'", name, e.getCause());
      }
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
        return Arrays.asList(found.lastModifiedTime(), found.fileKey(), found.size());
      } catch (IOException e) {
        return null;
      }
    }

    @Override
    Mapping map(String file, long size, String checksum) {
      try {
        return Mapping.of(checkedInside(file), nameOf(file), size);
      } catch (NoSuchFileException e) {
        throw TableError.missing(nameOf(file));
      } catch (IOException e) {
        throw TableError.inaccessible("read '" + file + "'", name, e);
      }
    }

    /**
     * Refuse a file that leads out of the table's folder, and one that is a pipe, say.
     *
     * @throws IOException it is not there, or is a folder
     */
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
    void keep(Iterable<String> files) {}

    @Override
    boolean isRemote() {
      return false;
    }

    @Override
    boolean isRemoved() {
      return !Files.exists(folder);
    }
  }

  private static final class Remote extends Storage {
    private final CopyService service;

    Remote(String url, List<String> python) {
      super(url);
      service = CopyService.of(python);
    }

    @Override
    int[] numbers() {
      JsonNode found = service.ask(request("numbers")).path("numbers");
      int[] numbers = new int[found.size()];
      for (int i = 0; i < numbers.length; i++) {
        numbers[i] = found.get(i).asInt();
      }
      return numbers;
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
    Object stamp(int number) {
      return null;
    }

    @Override
    Mapping map(String file, long size, String checksum) {
      ObjectNode request = request("file");
      request.put("name", file).put("size", size).put("checksum", checksum);
      try {
        return service.map(request, nameOf(file), size);
      } catch (IOException e) {
        throw TableError.inaccessible("read the copy of '" + file + "'", name, e);
      }
    }

    @Override
    void keep(Iterable<String> files) {
      ObjectNode request = request("keep");
      ArrayNode names = request.putArray("names");
      files.forEach(names::add);
      service.ask(request);
    }

    @Override
    boolean isRemote() {
      return true;
    }

    @Override
    boolean isRemoved() {
      return false;
    }

    private ObjectNode request(String what) {
      return CopyService.JSON.createObjectNode().put("url", name).put("what", what);
    }
  }
}
