package io.treadle.shim.link;

/** Something failed on the ResourceManager's side, through no fault of the engine's. */
final class OwnFailureException extends Exception {
  private static final long serialVersionUID = 1L;

  OwnFailureException(String message) {
    super(message);
  }
}
