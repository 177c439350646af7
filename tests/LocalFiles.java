import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.attribute.PosixFilePermission;
import java.nio.file.attribute.PosixFilePermissions;
import java.util.Set;
import org.apache.hadoop.fs.LocalFileSystem;
import org.apache.hadoop.fs.Path;
import org.apache.hadoop.fs.RawLocalFileSystem;
import org.apache.hadoop.fs.permission.FsPermission;

/**
 * Hadoop's local files, without a process for the rights of each new one.
 *
 * <p>Without its native library Hadoop starts {@code chmod} for every file that it makes: four times
 * in a micro-batch, two thirds of the time of a small one.
 */
public final class LocalFiles extends LocalFileSystem {
  public LocalFiles() {
    super(new Raw());
  }

  private static final class Raw extends RawLocalFileSystem {
    @Override
    public void setPermission(Path path, FsPermission permission) throws IOException {
      StringBuilder text = new StringBuilder();
      text.append(permission.getUserAction().SYMBOL);
      text.append(permission.getGroupAction().SYMBOL);
      text.append(permission.getOtherAction().SYMBOL);
      Set<PosixFilePermission> rights = PosixFilePermissions.fromString(text.toString());
      Files.setPosixFilePermissions(pathToFile(path).toPath(), rights);
    }
  }
}
