package org.bifrost.veneer;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertInstanceOf;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;
import static org.junit.jupiter.api.Assertions.fail;

import java.io.IOException;
import java.util.List;
import java.util.concurrent.CompletionException;
import org.bifrost.veneer.checked.Auctions;
import org.bifrost.veneer.checked.Auctions.Auction;
import org.bifrost.veneer.checked.Auctions.House;
import org.bifrost.veneer.checked.Auctions.NotFound;
import org.bifrost.veneer.checked.Auctions.Overflow;
import org.bifrost.veneer.checked.Auctions.TooLow;
import org.bifrost.veneer.checked.Auctions.Zero;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;

/** Stubs that {@code bifrost veneer --lang java --checked} makes. */
class CheckedTest {
  private Server server;
  private Session s;
  private House house;
  private Auction lamp;

  @BeforeEach
  void serve() throws IOException {
    server = Server.serve("examples/auctions/auctions.theta");
    s = Auctions.connect(server.url());
    house = s.lookup("house", House.TYPE);
    lamp = house.open("lamp", 10);
  }

  @AfterEach
  void end() {
    s.close();
    server.close();
  }

  @Test
  void aClaimDeclaresAnException() {
    assertTrue(Exception.class.isAssignableFrom(TooLow.class));
    assertEquals(CheckedSignalException.class, TooLow.class.getSuperclass());
    // It does not compile without the handler: the exception is a checked one.
    try {
      lamp.bid(3).claim(TooLow.TYPE);
      fail("the bid is too low");
    } catch (TooLow low) {
      assertEquals(10, low.first());
      assertEquals("too_low", low.signal());
      assertEquals(List.of(10L), low.values());
      assertEquals("Auction.bid", low.failure().call().name());
      assertEquals(List.of(), low.via());
    }
  }

  @Test
  void aValueComesAsBefore() throws TooLow, Zero, NotFound {
    assertEquals(1, lamp.bid(11).claim(TooLow.TYPE));
    assertEquals(2, lamp.bid(12).claim(Zero.TYPE, TooLow.TYPE));
    assertEquals(3, lamp.bid(13).claim(NotFound.TYPE, Zero.TYPE, TooLow.TYPE));
  }

  @Test
  void eitherOfSeveralIsThrown() {
    Int low = lamp.bid(3);
    Int none = s.value(1).div(0);
    assertThrows(TooLow.class, () -> low.claim(Zero.TYPE, TooLow.TYPE));
    assertThrows(TooLow.class, () -> low.claim(NotFound.TYPE, Zero.TYPE, TooLow.TYPE));
    assertThrows(Zero.class, () -> none.claim(NotFound.TYPE, Zero.TYPE, TooLow.TYPE));
    assertThrows(Zero.class, () -> none.claim(Zero.TYPE, TooLow.TYPE));
  }

  @Test
  void whatIsNotDeclaredIsUnchecked() {
    Int low = lamp.bid(3);
    Int next = low.plus(1);
    SignalException plain = assertThrows(SignalException.class, low::claim);
    assertEquals(SignalException.class, plain.getClass());
    assertEquals("too_low", plain.signal());
    assertEquals(List.of(10L), plain.values());
    assertEquals(10, assertInstanceOf(TooLow.class, plain.getCause()).first());
    assertThrows(SignalException.class, () -> low.claim(Overflow.TYPE));
    // What depends on the call fails by it.
    TooLow later = assertThrows(TooLow.class, () -> next.claim(TooLow.TYPE));
    assertEquals("int.add", later.failure().call().name());
    assertEquals(1, later.via().size());
    CompletionException future =
        assertThrows(CompletionException.class, () -> lamp.bid(4).toFuture().join());
    assertInstanceOf(TooLow.class, future.getCause().getCause());
  }

  @Test
  void objectsAreAwaitedLikewise() throws Zero {
    lamp.await(Zero.TYPE);
    Auction vase = house.open("vase", lamp.bid(3));
    assertThrows(TooLow.class, () -> vase.await(TooLow.TYPE));
    assertThrows(TooLow.class, () -> vase.await(Zero.TYPE, TooLow.TYPE));
    assertThrows(TooLow.class, () -> vase.await(NotFound.TYPE, Zero.TYPE, TooLow.TYPE));
    assertThrows(SignalException.class, vase::await);
  }

  @Test
  void unseenFailuresHaveThemAsCauses() {
    s.foreach(s.value(1).to(2), n -> lamp.bid(n));
    Int price = lamp.price();
    UnseenException unseen = assertThrows(UnseenException.class, () -> price.claim(TooLow.TYPE));
    assertEquals(2, unseen.getSuppressed().length);
    assertInstanceOf(TooLow.class, unseen.getSuppressed()[0].getCause());
    assertEquals(10, price.claim());
  }

  @Test
  void handlersAtTheServerTakeThem() {
    Cell.OfInt best = s.cell(0);
    s.except(() -> lamp.bid(3)).when(TooLow.TYPE, best::put);
    assertEquals(10, best.get().claim());
  }
}
