"""The parts of imports that move no bytes: URLs, offers, the state machine, the choice of a server."""

from __future__ import annotations

from itertools import pairwise
from types import MappingProxyType

import pytest

import bifrost_veneer as bf
from bifrost_veneer.importing.importer import (
    NO_ADDRESS,
    NO_OFFER,
    NO_STORE,
    NO_TRADER,
    Action,
    Ask,
    Cancel,
    Dial,
    Fail,
    Importer,
    Next,
    Timing,
    Use,
)
from bifrost_veneer.importing.offers import Property, parse_property, usable_addresses
from bifrost_veneer.importing.url import (
    SERVICE_BYTES_MAX,
    URL_BYTES_MAX,
    is_trader,
    parse_trader_url,
    split_addresses,
)
from bifrost_veneer.importing.watch import KNOWN_MAX, Knowledge, is_ordered
from bifrost_veneer.io.address import AddressError, parse_address

PIN = "sha256-AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8"


def test_urls_name_a_trader_a_service_and_a_query() -> None:
    for text, trader, service, query in (
        ("trader://host/DataBase?region=eu", "tls://host:7450", "DataBase", "region=eu"),
        ("trader://[::1]/Box%5Bint%5D?a^=b", "tls://[::1]:7450", "Box[int]", "a^=b"),
        (f"trader://h:1/S#{PIN}", f"tls://h:1#{PIN}", "S", ""),
        ("trader+tcp://h/S?a=1&b=2", "tcp://h:7450", "S", "a=1&b=2"),
        ("trader+quic://h:1/S?a=1#pin", "quic://h:1#pin", "S", "a=1"),
        ("trader+unix:///run/t?a=1&service=S", "unix:///run/t", "S", "a=1"),
        ("trader+unix:///run/a%20b%3Fc?x=1&service=S&y=2", "unix:///run/a b?c", "S", "x=1&y=2"),
        ("trader:///S?zip='01'", None, "S", "zip='01'"),
    ):
        assert is_trader(text)
        parsed = parse_trader_url(text)
        assert (parsed.trader, parsed.service, parsed.query) == (trader, service, query)
    assert parse_trader_url("trader://h/S?a=1&prefer=min(load)").prefer == "min(load)"
    assert parse_trader_url("trader://h/S?a=1").prefer == ""
    for text in ("unix:///trader", "tls://trader:1", "trader", "traders://x/Y", ""):
        assert not is_trader(text)
    assert split_addresses("tls://a:1, tls://b:1\ntcp://c:1,,") == [
        "tls://a:1",
        "tls://b:1",
        "tcp://c:1",
    ]


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("trader://t", "names no service"),
        ("trader://t/", "write the type of the object"),
        ("trader://t/a/b", "is no name of a type"),
        ("trader://t/a%", "is no name of a type"),
        ("trader://t/a%0Ab", "is no name of a type"),
        ("trader://t/" + "s" * (SERVICE_BYTES_MAX + 1), "is no name of a type"),
        ("trader+udp://host/S", "is no URL of a trader: write `trader://host/Service"),
        ("trader+tcp:///S", "names no host"),
        ("trader+tcp://h/S#pin", "other traders have no certificate"),
        ("trader+quic:///S", "names no host: write `trader.quic://host:port/Service`"),
        ("trader:///S#pin", "the URL names no trader"),
        ("trader+unix://run?service=S", "write three slashes"),
        ("trader+unix:///run/%zz?service=S", "is no absolute path"),
        ("trader+unix:///run", "names no service"),
        ("trader+unix:///run?service=", "names no service"),
        ("trader+unix:///run?service=A&service=B", "`service` is there twice"),
        ("trader://host/a b", "write `%20`"),
        ("trader://host/" + "a" * URL_BYTES_MAX, f"it may have {URL_BYTES_MAX}"),
    ],
)
def test_wrong_urls_say_what_a_right_one_looks_like(text: str, why: str) -> None:
    with pytest.raises(AddressError, match=why.replace("(", r"\(").replace("?", r"\?")):
        parse_trader_url(text)


def test_properties_have_the_type_of_their_form() -> None:
    for text, value in (
        ("1", 1),
        ("-7", -7),
        ("-0", "-0"),
        ("01", "01"),
        ("'01'", "01"),
        ("1.5", 1.5),
        ("-0.0", 0.0),
        ("1.0e400", "1.0e400"),
        ("-9223372036854775808", -9223372036854775808),
        ("9223372036854775808", "9223372036854775808"),
        ("1" * 5000, "1" * 5000),
        ("true", True),
        ("eu", "eu"),
        ("'", "'"),
    ):
        found = parse_property(text)
        assert (found, type(found)) == (value, type(value))


def test_addresses_that_a_trader_makes_up_are_refused_as_such() -> None:
    for port in ("1" * 5000, "65536", "٣", "-1", " 1"):
        with pytest.raises(AddressError, match="is not a port"):
            parse_address(f"tcp://host:{port}")
    assert [parse_address(f"tcp://host:{port}").port for port in ("0", "000007447")] == [0, 7447]
    # No name of a host has so long a part: that is no error of this process.
    assert not parse_address(f"tcp://{'a' * 64}.example:1").is_private


def offer(
    name: str = "a", *addresses: str, doubtful: bool = False, **properties: Property
) -> bf.Offer:
    return bf.Offer(
        1,
        "DataBase",
        "00",
        name,
        addresses or (f"tcp://{name}:1",),
        MappingProxyType(properties),
        None,
        doubtful,
    )


def test_local_addresses_are_for_the_same_machine_and_come_first() -> None:
    one = offer("a", "tls://a:1", "tcp://a:2", "unix:///a", "shm:///a", host="h")
    known = ("tcp", "tls", "unix")
    assert usable_addresses(one, "h", known) == ["unix:///a", "tls://a:1", "tcp://a:2"]
    assert usable_addresses(one, "g", known) == ["tls://a:1", "tcp://a:2"]
    assert usable_addresses(one, "", ["shm"]) == []
    assert (one.host, one.store) == ("h", None)


# The state machine, with a clock of its own.


class World:
    """An importer with traders and servers that do as the test says."""

    def __init__(self, traders: int = 1, timeout: float | None = 60.0) -> None:
        self.now = 0.0
        timing = Timing(timeout=timeout)
        self.importer = Importer(timing, traders, "", ("tcp",), self.now, seed=7)

    def poll(self) -> list[Action]:
        """All actions that are due now."""
        actions = []
        while (action := self.importer.poll(self.now)) is not None:
            actions.append(action)
        return actions

    def wait(self) -> None:
        """Waits until the next deadline."""
        until = self.importer.next_deadline()
        assert until is not None
        assert until >= self.now
        self.now = until

    def next(self) -> list[Action]:
        """Waits for the next actions."""
        while not (actions := self.poll()):
            self.wait()
        return actions

    def ask(self) -> Ask:
        """Waits for one question."""
        (action,) = self.next()
        assert isinstance(action, Ask)
        return action

    def dial(self) -> Dial:
        """Waits for one dial."""
        (action,) = self.next()
        assert isinstance(action, Dial)
        return action

    def use(self, *offers: bf.Offer) -> Dial:
        """Goes on until a server is in use."""
        self.importer.found(self.ask().id, offers, self.now)
        dial = self.dial()
        self.importer.opened(dial.id)
        assert self.next() == [Use(dial)]
        return dial


def test_traders_are_asked_one_after_the_other_in_random_order() -> None:
    orders = set()
    for seed in range(40):
        importer = Importer(Timing(), 3, "", ("tcp",), 0.0, seed)
        now, order = 0.0, list[tuple[int, float]]()
        while len(order) < 3:
            action = importer.poll(now)
            if isinstance(action, Ask):
                order.append((action.trader, now))
            else:
                now = importer.next_deadline() or now
        assert [when for _, when in order] == [0.0, 0.25, 0.5]
        orders.add(tuple(trader for trader, _ in order))
    assert len(orders) == 6


def test_a_trader_without_an_answer_is_no_reason_to_wait() -> None:
    world = World(2)
    first = world.ask()
    world.importer.ask_failed(first.id, world.now)
    # The next one is asked at once.
    assert world.now == 0.0
    second = world.ask()
    assert (world.now, second.trader) == (0.0, 1 - first.trader)
    world.importer.found(second.id, [offer()], world.now)
    assert world.dial().address == "tcp://a:1"
    # An answer to a question that was given up is none.
    world.importer.found(first.id, [offer("late")], world.now)
    assert world.poll() == []


def test_addresses_race_by_a_quarter_of_a_second() -> None:
    world = World()
    offers = [offer("a", "tcp://a:1", "tcp://a:2"), offer("b")]
    world.importer.found(world.ask().id, offers, world.now)
    dials = []
    for _ in range(3):
        dials.append((world.dial(), world.now))
    assert [dial.address for dial, _ in dials] == ["tcp://a:1", "tcp://a:2", "tcp://b:1"]
    assert [when for _, when in dials] == [0.0, 0.25, 0.5]
    # The second one answers first: the others are given up.
    world.importer.opened(dials[1][0].id)
    actions = world.poll()
    assert actions[-1] == Use(dials[1][0])
    assert {action.id for action in actions if isinstance(action, Cancel)} == {
        dials[0][0].id,
        dials[2][0].id,
    }
    # What the others report now is nothing.
    world.importer.opened(dials[0][0].id)
    assert world.poll() == []


def test_a_failed_address_is_followed_at_once_and_a_silent_one_given_up() -> None:
    world = World()
    world.importer.found(world.ask().id, [offer("a"), offer("b")], world.now)
    world.importer.dial_failed(world.dial().id, world.now)
    second = world.dial()
    assert (second.address, world.now) == ("tcp://b:1", 0.0)
    assert world.next() == [Cancel(second.id)]
    assert world.now == 5.0


def test_it_pauses_longer_and_longer_until_its_time_is_over() -> None:
    world = World(timeout=20.0)
    asked = []
    while True:
        (action,) = world.next()
        if isinstance(action, Fail):
            break
        assert isinstance(action, Ask)
        asked.append(world.now)
        world.importer.ask_failed(action.id, world.now)
        assert world.poll() == []
        assert world.importer.is_pausing
    assert action == Fail(NO_TRADER)
    assert world.now == 20.0
    pauses = [after - before for before, after in pairwise(asked)]
    most = 1.0
    for pause in pauses:
        assert most / 2 <= pause <= most
        most = min(2 * most, 30.0)
    assert len(pauses) >= 4
    assert world.poll() == []


def test_the_error_says_what_is_known() -> None:
    def failure(*offers: bf.Offer) -> Action:
        world = World(timeout=1.0)
        world.importer.found(world.ask().id, offers, world.now)
        for action in world.poll():
            assert isinstance(action, Dial)
            world.importer.dial_failed(action.id, world.now)
        while True:
            for action in world.next():
                if isinstance(action, Fail):
                    return action

    assert failure() == Fail(NO_OFFER)
    assert failure(offer("a", "shm:///a")) == Fail(NO_ADDRESS)
    assert failure(offer("a")) == Fail("no server of 1 offers was reached")
    world = World()
    world.ask()
    world.importer.give_up()
    assert world.poll() == [Fail(NO_TRADER)]


def test_after_a_loss_the_lost_offer_comes_last() -> None:
    world = World()
    a, b = offer("a"), offer("b")
    assert world.use(a, b).offer == a
    world.importer.lost(Next.AGAIN, world.now)
    # An offer that was not dialled yet is next, before a trader is asked.
    assert world.dial().offer == b
    world = World()
    world.use(a)
    world.importer.lost(Next.AGAIN, world.now)
    world.importer.found(world.ask().id, [a, b], world.now)
    assert world.dial().offer == b


def test_a_named_batch_stays_with_its_store() -> None:
    world = World()
    one, two, other = offer("a", store="x"), offer("b", store="x"), offer("c", store="y")
    world.use(one, other)
    assert not world.importer.is_bound
    world.importer.lost(Next.SAME_STORE, world.now)
    assert world.importer.is_bound
    world.importer.found(world.ask().id, [other, two], world.now)
    dial = world.dial()
    assert dial.offer == two
    world.importer.opened(dial.id)
    world.next()
    # A loss of which nothing is known in between does not lift the bound.
    world.importer.lost(Next.AGAIN, world.now)
    assert world.importer.is_bound
    world.importer.release_store()
    assert not world.importer.is_bound
    world = World()
    world.use(offer("a"))
    world.importer.lost(Next.SAME_STORE, world.now)
    assert world.poll() == [Fail(NO_STORE)]


def test_a_program_can_move_by_itself() -> None:
    world = World()
    world.use(offer("a"))
    world.importer.moved(offer("b"))
    assert world.poll() == []
    world.importer.lost(Next.AGAIN, world.now)
    world.importer.found(world.ask().id, [offer("b"), offer("a")], world.now)
    assert world.dial().offer.name == "a"


# The choice of another server.


def moves(prefer: str, offers: list[str], are_all: bool, listed: list[str]) -> str:
    """The offer to which a client of ``a`` moves, that knows ``a`` and ``b``."""
    in_use = bf.Imported(offer("a"), "tcp://a:1")
    knowledge = Knowledge(in_use, [offer("a"), offer("b")], prefer)
    chosen = knowledge.consider([offer(n) for n in offers], are_all, [offer(n) for n in listed])
    return "" if chosen is None else chosen.name


def test_clients_move_for_a_reason_only() -> None:
    # A new one that comes first, and one that does not.
    assert moves("", ["c", "a"], True, ["a"]) == "c"
    assert moves("", ["a", "c"], True, ["a"]) == ""
    # A known one, in any order, in the order of a load, and in a fixed one.
    for prefer in ("", "min(load)", "max(load)", "spread", "random"):
        assert not is_ordered(prefer)
        assert moves(prefer, ["b", "a"], True, ["a"]) == ""
    for prefer in ("first", "min(tier)", "max(tier)"):
        assert is_ordered(prefer)
        assert moves(prefer, ["b", "a"], True, ["a"]) == "b"
        assert moves(prefer, ["a", "b"], True, ["a"]) == ""
    # The one in use is gone; it was not there before; the list is not whole; nobody is left.
    assert moves("", ["b"], True, ["a", "b"]) == "b"
    assert moves("", ["b"], True, ["b"]) == ""
    assert moves("", ["b"], False, ["a", "b"]) == ""
    assert moves("", [], True, ["a", "b"]) == ""
    in_use = bf.Imported(offer("a"), "tcp://a:1")
    knowledge = Knowledge(in_use, [], "first")
    assert knowledge.consider([offer("c", doubtful=True)], True, []) is None


def test_only_so_many_offers_are_remembered() -> None:
    knowledge = Knowledge(bf.Imported(offer("a"), "tcp://a:1"), [], "")
    for number in range(KNOWN_MAX + 10):
        knowledge.consider([offer(f"n{number}")], True, [])
    assert len(knowledge.known) == KNOWN_MAX
    assert knowledge.known[-1].name == f"n{KNOWN_MAX + 9}"
