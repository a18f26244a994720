package io.treadle.shim.link;

import java.io.BufferedOutputStream;
import java.io.EOFException;
import java.io.IOException;
import java.io.InputStream;
import java.io.InterruptedIOException;
import java.io.OutputStream;
import java.net.InetSocketAddress;
import java.net.Socket;
import java.net.SocketImpl;
import java.net.StandardSocketOptions;
import java.nio.ByteBuffer;
import java.nio.channels.SelectionKey;
import java.nio.channels.Selector;
import java.nio.channels.SocketChannel;
import java.nio.channels.spi.SelectorProvider;

/**
 * A connection whose reads <em>and writes</em> keep to {@link CallLimits}: a plain socket's write to a process that has
 * stopped reading never returns. TCP_NODELAY, since with Nagle's algorithm a reply of 8 KiB takes 44 ms. Only what
 * Py4J's CallbackConnection uses is supported. Used by one thread at a time; an interrupt ends what it waits for.
 */
final class BoundedSocket extends Socket {
  private static final int WRITE_BUFFER_BYTES = 1 << 16;

  private final SocketChannel channel;
  private final Selector selector;
  private final SelectionKey key;
  private final CallLimits limits;

  /** Connects, within the limits. */
  BoundedSocket(InetSocketAddress address, CallLimits limits) throws IOException {
    this(address, limits, SelectorProvider.provider());
  }

  /** Connects, within the limits, with what a provider opens. */
  BoundedSocket(InetSocketAddress address, CallLimits limits, SelectorProvider provider) throws IOException {
    super((SocketImpl) null);
    this.limits = limits;
    this.selector = provider.openSelector();
    try {
      this.channel = provider.openSocketChannel();
      channel.configureBlocking(false);
      channel.setOption(StandardSocketOptions.TCP_NODELAY, true);
      key = channel.register(selector, 0);
      if (!channel.connect(address)) {
        do {
          await(SelectionKey.OP_CONNECT);
        } while (!channel.finishConnect());
      }
    } catch (IOException | RuntimeException e) {
      close();
      throw e;
    }
  }

  private void await(int operation) throws IOException {
    key.interestOps(operation);
    selector.select(limits.remainingMs());
    selector.selectedKeys().clear();
    if (Thread.currentThread().isInterrupted()) {
      throw new InterruptedIOException("interrupted while waiting for the sidecar");
    }
  }

  private int receive(byte[] bytes, int offset, int length) throws IOException {
    ByteBuffer buffer = ByteBuffer.wrap(bytes, offset, length);
    int read = channel.read(buffer);
    while (read == 0) {
      await(SelectionKey.OP_READ);
      read = channel.read(buffer);
    }
    if (read < 0) {
      // not as the end of a stream, which readLine() would take for the end of a line
      throw new EOFException("the sidecar closed the connection");
    }
    limits.received(read);
    limits.remainingMs();
    return read;
  }

  private void send(byte[] bytes, int offset, int length) throws IOException {
    ByteBuffer buffer = ByteBuffer.wrap(bytes, offset, length);
    while (buffer.hasRemaining()) {
      if (channel.write(buffer) == 0) {
        await(SelectionKey.OP_WRITE);
      }
    }
  }

  @Override
  public InputStream getInputStream() {
    return new InputStream() {
      private final byte[] one = new byte[1];

      @Override
      public int read() throws IOException {
        receive(one, 0, 1);
        return one[0] & 0xff;
      }

      @Override
      public int read(byte[] bytes, int offset, int length) throws IOException {
        return length == 0 ? 0 : receive(bytes, offset, length);
      }
    };
  }

  @Override
  public OutputStream getOutputStream() {
    OutputStream direct = new OutputStream() {
      @Override
      public void write(int value) throws IOException {
        send(new byte[] {(byte) value}, 0, 1);
      }

      @Override
      public void write(byte[] bytes, int offset, int length) throws IOException {
        send(bytes, offset, length);
      }
    };
    return new BufferedOutputStream(direct, WRITE_BUFFER_BYTES);
  }

  /** The limits decide, not this. */
  @Override
  public void setSoTimeout(int timeoutMs) {
    // see CallLimits
  }

  @Override
  public void setSoLinger(boolean on, int seconds) {
    try {
      channel.setOption(StandardSocketOptions.SO_LINGER, on ? seconds : -1);
    } catch (IOException e) {
      // the connection is being given up: without lingering it goes a little later
    }
  }

  @Override
  public boolean isClosed() {
    return !channel.isOpen();
  }

  @Override
  public void close() throws IOException {
    try {
      selector.close();
    } finally {
      if (channel != null) {
        channel.close();
      }
    }
  }
}
