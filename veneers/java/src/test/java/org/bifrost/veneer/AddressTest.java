package org.bifrost.veneer;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;
import org.junit.jupiter.params.provider.ValueSource;

class AddressTest {
  private static final String PIN = "sha256-q0XGTVnjzWgntQCX37Mv03i7-Y_dGPth7_rvhYR7PCQ";

  @ParameterizedTest
  @ValueSource(
      strings = {
        "unix:///run/main",
        "shm:///run/main",
        "unix:///with space/#100%",
        "tcp://localhost:7447",
        "tcp://[::1]:0",
        "tls://db1.example:65535",
        "tls://h:1#" + PIN,
        "ws://h:80/",
        "ws://h:8080/a/b?c=d",
        "wss://[::1]:443/#" + PIN,
      })
  void isShownAsItWasWritten(String text) {
    // A question mark is no part of a path.
    if (text.indexOf('?') >= 0) {
      assertThrows(IllegalArgumentException.class, () -> Address.parse(text));
    } else {
      assertEquals(text, Address.parse(text).toString());
    }
  }

  @Test
  void websocketsHaveDefaults() {
    assertEquals("ws://h:80/", Address.parse("ws://h").toString());
    assertEquals("wss://h:443/p", Address.parse("wss://h/p").toString());
    assertEquals("wss://h:443/#" + PIN, Address.parse("wss://h#" + PIN).toString());
    assertEquals(7447, Address.parse("tcp://h:007447").port());
  }

  @ParameterizedTest
  @CsvSource({
    "nothing, add a scheme",
    "http://h, is not a transport",
    "quic://h:1, no QUIC",
    "shm://a, as in `shm:///run/main`",
    "shm:///a/, names no file",
    "unix://a, three slashes",
    "unix:///a/, names no file",
    "tcp://h, a port is missing",
    "tcp://h:, is not a port",
    "tcp://h:65536, is not a port",
    "tcp://h:99999999999999999999, is not a port",
    "tcp://h:-1, is not a port",
    "tcp://:1, is not a host",
    "tcp://h/:1, is not a host",
    "tcp://::1:7447, needs brackets",
    "tcp://[::1:7447, is not a host and a port",
    "tcp://[::1]x:7447, is not a host and a port",
    "tcp://[h]:7447, is not an IPv6 address",
    "tcp://[::1%lo]:7447, is not an IPv6 address",
    "tcp://h:1#sha256-abc, is not a port",
    "tls://h:1#sha256-abc, cannot follow",
    "tls://h:1#, cannot follow",
    "ws://h#sha256-abc, is not a host",
    "ws://h/a b, is not the path",
  })
  void isRefusedWithTheReason(String text, String why) {
    String told =
        assertThrows(IllegalArgumentException.class, () -> Address.parse(text)).getMessage();
    assertTrue(told.contains(why), told);
  }

  @Test
  void pathsOfSocketsAreBounded() {
    String longest = "unix:///" + "x".repeat(Address.PATH_BYTES_MAX - 1);
    assertEquals(longest, Address.parse(longest).toString());
    assertThrows(IllegalArgumentException.class, () -> Address.parse(longest + "x"));
    assertThrows(
        IllegalArgumentException.class,
        () -> Address.parse("unix:///" + "\u00e4".repeat(Address.PATH_BYTES_MAX / 2 + 1)));
  }

  @Test
  void tokensAreShownWhereTheyMayBe() {
    assertFalse(Address.parse("unix:///a").mayAskForToken());
    assertFalse(Address.parse("shm:///a").mayAskForToken());
    assertTrue(Address.parse("shm:///a").isPrivate());
    assertTrue(Address.parse("tcp://127.0.0.1:1").mayAskForToken());
    assertTrue(Address.parse("tcp://127.0.0.1:1").isPrivate());
    assertTrue(Address.parse("wss://198.51.100.1").isPrivate());
    assertFalse(Address.parse("ws://198.51.100.1").isPrivate());
  }
}
