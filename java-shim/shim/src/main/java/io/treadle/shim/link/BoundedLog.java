// SPDX-License-Identifier: Apache-2.0
package io.treadle.shim.link;

import io.treadle.shim.Log;
import io.treadle.shim.config.ShimConfig;
import java.io.File;
import java.io.IOException;
import java.io.OutputStream;
import java.nio.file.Files;
import java.nio.file.LinkOption;
import java.nio.file.StandardCopyOption;
import java.nio.file.StandardOpenOption;

/**
 * A log file that does not grow beyond a bound: when it is full it becomes {@code FILE.1}, in place of an older one. A
 * file that cannot be written, or is a link to another, is said so once, and what should go there is lost. Used by one
 * thread.
 */
final class BoundedLog implements AutoCloseable {
  private static final Log LOG = new Log(BoundedLog.class);

  private final File file;
  private final long maxBytes;
  private OutputStream out;
  private long length;
  private boolean broken;

  /** A log that is opened, and appended to, at the first write. */
  BoundedLog(File file, long maxBytes) {
    this.file = file;
    this.maxBytes = maxBytes;
  }

  void write(byte[] bytes, int count) {
    if (broken) {
      return;
    }
    try {
      if (out == null) {
        open();
      }
      if (length + count > maxBytes) {
        rotate();
      }
      out.write(bytes, 0, count);
      length += count;
    } catch (IOException e) {
      broken = true;
      LOG.warn("Treadle's sidecar has no log, cannot write {}: {}. Set {} to a writable path in a folder of the RM's"
          + " own", file, e.getMessage(), ShimConfig.SIDECAR_LOG_FILE);
    }
  }

  private void open() throws IOException {
    File folder = file.getAbsoluteFile().getParentFile();
    if (folder != null) {
      Files.createDirectories(folder.toPath());
    }
    if (Files.isSymbolicLink(file.toPath())) {
      throw new IOException("it is a symbolic link, which might lead to any file of the RM's user");
    }
    out = Files.newOutputStream(file.toPath(), StandardOpenOption.CREATE, StandardOpenOption.WRITE,
        StandardOpenOption.APPEND, LinkOption.NOFOLLOW_LINKS);
    length = file.length();
  }

  private void rotate() throws IOException {
    out.close();
    Files.move(file.toPath(), new File(file.getPath() + ".1").toPath(), StandardCopyOption.REPLACE_EXISTING);
    open();
  }

  @Override
  public void close() {
    try {
      if (out != null) {
        out.close();
      }
    } catch (IOException e) {
      // nothing more is to be written
    }
  }
}
