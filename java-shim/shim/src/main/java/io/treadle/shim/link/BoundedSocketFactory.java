package io.treadle.shim.link;

import java.io.IOException;
import java.net.ConnectException;
import java.net.InetAddress;
import java.net.InetSocketAddress;
import java.net.Socket;
import javax.net.SocketFactory;

/**
 * Makes the sockets of one engine: {@link BoundedSocket}s that share its limits, each handed out only after both ends
 * have proved that they know the secret.
 */
final class BoundedSocketFactory extends SocketFactory {
  private final Py4jEngine.Endpoint endpoint;
  private final CallLimits limits;
  private final Handshake handshake;
  private BoundedSocket last;

  BoundedSocketFactory(Py4jEngine.Endpoint endpoint, CallLimits limits, Handshake handshake) {
    this.endpoint = endpoint;
    this.limits = limits;
    this.handshake = handshake;
  }

  @Override
  public Socket createSocket(InetAddress address, int port) throws IOException {
    closeLast();
    try {
      last = new BoundedSocket(new InetSocketAddress(address, port), limits);
    } catch (ConnectException e) {
      // Not as the cause, since the innermost one is what is reported.
      throw new IOException("no sidecar listens at " + endpoint + " (" + e.getMessage() + ")" + endpoint.remedy);
    }
    try {
      handshake.perform(last.getInputStream(), last.getOutputStream());
    } catch (IOException | RuntimeException e) {
      closeLast();
      throw e;
    }
    return last;
  }

  /**
   * Closes the last socket, which Py4J forgets if an Error strikes during a call. Nothing happens if it is closed
   * already.
   */
  void closeLast() throws IOException {
    if (last != null) {
      last.close();
    }
  }

  @Override
  public Socket createSocket(String host, int port) throws IOException {
    return createSocket(InetAddress.getByName(host), port);
  }

  @Override
  public Socket createSocket(String host, int port, InetAddress localAddress, int localPort) {
    throw new UnsupportedOperationException("Py4J does not bind the client's side");
  }

  @Override
  public Socket createSocket(InetAddress address, int port, InetAddress localAddress, int localPort) {
    throw new UnsupportedOperationException("Py4J does not bind the client's side");
  }
}
