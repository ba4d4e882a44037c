package calls;

import calls.Calls.Row;
import com.google.common.util.concurrent.ListenableFuture;
import io.grpc.ManagedChannel;
import io.grpc.netty.shaded.io.grpc.netty.NettyChannelBuilder;
import io.grpc.netty.shaded.io.netty.channel.epoll.EpollDomainSocketChannel;
import io.grpc.netty.shaded.io.netty.channel.epoll.EpollEventLoopGroup;
import io.grpc.netty.shaded.io.netty.channel.unix.DomainSocketAddress;
import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.List;

/**
 * A peer of {@code bifrost bench veneers} in Java: grpc-java with the server in C++.
 *
 * <p>{@code Peer client PATH} answers lines {@code CASE N}, as README.md has them. PATH is a unix
 * socket.
 */
public final class Peer {
  /** The runs of each case before the first line, so that its code is compiled. */
  private static final int WARM_RUNS = 20;

  private final ProbeGrpc.ProbeBlockingStub blocking;
  private final ProbeGrpc.ProbeFutureStub future;
  private long result;
  private long end;

  private Peer(ManagedChannel channel) {
    blocking = ProbeGrpc.newBlockingStub(channel);
    future = ProbeGrpc.newFutureStub(channel);
  }

  private static Calls.Object object(long object) {
    return Calls.Object.newBuilder().setObject(object).build();
  }

  private static Calls.Number number(long object, long number) {
    return Calls.Number.newBuilder().setObject(object).setNumber(number).build();
  }

  /** Calls that do not wait for each other. The time ends when all are begun, or answered. */
  private void together(int count, boolean begun) throws Exception {
    List<ListenableFuture<Calls.Number>> all = new ArrayList<>(count);
    for (int n = 0; n < count; n++) {
      all.add(future.sameInt(number(1, n)));
    }
    if (begun) {
      end = System.nanoTime();
    }
    for (ListenableFuture<Calls.Number> one : all) {
      result += one.get().getNumber();
    }
  }

  private long run(String name, int count) throws Exception {
    result = 0;
    end = 0;
    long begin = System.nanoTime();
    switch (name) {
      case "record" -> together(count, true);
      case "batch" -> together(count, false);
      case "null" -> {
        for (int n = 0; n < count; n++, result++) {
          blocking.nothing(object(1));
        }
      }
      case "pair" -> {
        for (int n = 0; n < count; n++) {
          result += blocking.sameInt(number(1, n)).getNumber();
        }
      }
      case "two" -> {
        for (int n = 0; n < count; n++) {
          long itself = blocking.itself(object(1)).getObject();
          result += blocking.sameInt(number(itself, n)).getNumber();
        }
      }
      case "table" -> {
        for (Row row : blocking.pairs(number(1, count)).getRowsList()) {
          result += row.getNumber() + row.getText().length();
        }
      }
      default -> throw new IllegalArgumentException("no case " + name);
    }
    return (end == 0 ? System.nanoTime() : end) - begin;
  }

  /** Runs the cases that standard input names. */
  public static void main(String[] arguments) throws Exception {
    if (arguments.length != 2 || !arguments[0].equals("client")) {
      throw new IllegalArgumentException("client PATH");
    }
    EpollEventLoopGroup group = new EpollEventLoopGroup(1);
    ManagedChannel channel =
        NettyChannelBuilder.forAddress(new DomainSocketAddress(arguments[1]))
            .eventLoopGroup(group)
            .channelType(EpollDomainSocketChannel.class)
            .maxInboundMessageSize(64 << 20)
            .usePlaintext()
            .build();
    Peer peer = new Peer(channel);
    for (String name : List.of("record", "null", "pair", "two", "batch", "table")) {
      for (int i = 0; i < WARM_RUNS; i++) {
        peer.run(name, 200);
      }
    }
    BufferedReader lines =
        new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
    for (String line = lines.readLine(); line != null; line = lines.readLine()) {
      String[] words = line.split(" ");
      long took = peer.run(words[0], Integer.parseInt(words[1]));
      System.out.println(took + " " + peer.result);
    }
    channel.shutdownNow();
    group.shutdownGracefully();
  }
}
