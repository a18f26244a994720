// SPDX-License-Identifier: Apache-2.0
package io.treadle.shim.wire;

/** The cluster does not fit on the wire: the configured frame size is too small for a section that cannot be split. */
public final class FrameTooSmallException extends IllegalStateException {
  private static final long serialVersionUID = 1L;

  /** With what does not fit. */
  public FrameTooSmallException(Section section, long bytes, int maxBytes) {
    super("the section " + section + " needs a frame of more than " + bytes
        + " bytes; raise yarn.scheduler.treadle.frame.max-bytes, which is " + maxBytes
        + ", and restart the ResourceManager");
  }
}
