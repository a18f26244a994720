package io.treadle.shim.link;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertNotNull;
import static org.junit.jupiter.api.Assertions.assertThrows;

import java.io.IOException;
import java.net.InetAddress;
import java.net.InetSocketAddress;
import java.net.ProtocolFamily;
import java.nio.channels.DatagramChannel;
import java.nio.channels.Pipe;
import java.nio.channels.ServerSocketChannel;
import java.nio.channels.SocketChannel;
import java.nio.channels.spi.AbstractSelector;
import java.nio.channels.spi.SelectorProvider;
import org.junit.jupiter.api.Test;

class BoundedSocketTest {
  /** A process that has one file left to open: its selector, and no channel. */
  private static final class OutOfFiles extends SelectorProvider {
    private AbstractSelector selector;

    @Override
    public AbstractSelector openSelector() throws IOException {
      selector = SelectorProvider.provider().openSelector();
      return selector;
    }

    @Override
    public SocketChannel openSocketChannel() throws IOException {
      throw new IOException("Too many open files");
    }

    @Override
    public DatagramChannel openDatagramChannel() {
      throw new UnsupportedOperationException();
    }

    @Override
    public DatagramChannel openDatagramChannel(ProtocolFamily family) {
      throw new UnsupportedOperationException();
    }

    @Override
    public Pipe openPipe() {
      throw new UnsupportedOperationException();
    }

    @Override
    public ServerSocketChannel openServerSocketChannel() {
      throw new UnsupportedOperationException();
    }
  }

  @Test
  void whatWasOpenedIsClosedIfTheRestCannotBe() {
    OutOfFiles provider = new OutOfFiles();
    InetSocketAddress address = new InetSocketAddress(InetAddress.getLoopbackAddress(), 1);
    String message = assertThrows(IOException.class,
        () -> new BoundedSocket(address, new CallLimits(1000, 1000), provider)).getMessage();
    assertEquals("Too many open files", message);
    assertNotNull(provider.selector);
    assertFalse(provider.selector.isOpen());
  }
}
