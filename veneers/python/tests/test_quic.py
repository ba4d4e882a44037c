"""Sessions over QUIC, which need the native library; the cases of `conftest.WAYS` go over it too."""

from __future__ import annotations

import asyncio
import ssl
import time

import pytest
from conformance.bifrost_stubs import Probe, aconnect, connect
from database.bifrost_stubs import DataBase
from database.bifrost_stubs import aconnect as aconnect_database
from database.bifrost_stubs import connect as connect_database
from servers import CONFORMANCE, EXAMPLES, Server

import bifrost_veneer as bf
from bifrost_veneer import native
from bifrost_veneer.io.address import AddressError, parse_address

QUIC = ("--listen", "quic://127.0.0.1:0", "--anonymous-loopback")
#: A connection that has started again is told at once, on a busy machine too.
SOON = 15.0


def test_quic_is_an_address_with_the_library_only() -> None:
    if native.module is None:
        with pytest.raises(
            AddressError, match=r"needs the package bifrost_native.*`tls://host:port`"
        ):
            parse_address("quic://host:7447")
        with pytest.raises(bf.ConnectError, match="needs the package bifrost_native"):
            connect("quic://host:7447")
        return
    pin = "#sha256-" + 43 * "A"
    address = parse_address("quic://host:7447" + pin)
    assert (address.scheme, address.host, address.port) == ("quic", "host", 7447)
    assert str(address) == "quic://host:7447" + pin
    assert address.is_private
    assert address.may_ask_for_token
    assert not address.is_tls
    with pytest.raises(AddressError, match="has no port"):
        parse_address("quic://host")


if native.module is not None:

    def test_the_client_of_the_database() -> None:
        program = EXAMPLES / "database" / "database.theta"
        with Server(program, *QUIC) as server:
            with connect_database(server.at("quic")) as s:
                db = s.lookup("database", DataBase)
                rows = s.collect(db.users(), lambda user: (user.name(), user.visits())).claim()
                assert rows == [("ann", 0), ("bob", 0), ("eve", 0)]
                assert s.counters.crossings == 1
                s.transaction(lambda: db.fetch("eve").touch())
                with pytest.raises(bf.Signal):
                    db.fetch("zoe").name().claim()

            async def main() -> int:
                async with aconnect_database(server.at("quic")) as s:
                    return await s.lookup("database", DataBase).fetch("eve").visits()

            assert asyncio.run(asyncio.wait_for(main(), 60)) == 1

    def test_the_key_of_the_server_counts() -> None:
        with Server(CONFORMANCE, *QUIC) as server:
            url = server.at("quic")
            with connect(url) as s:
                assert s.lookup("probe", Probe).same_int(7).claim() == 7
            plain, _, pin = url.partition("#")
            other = f"{plain}#{pin[:-2]}{'A' if pin[-2] != 'A' else 'B'}{pin[-1]}"
            # Another key; and one that no authority has signed.
            for wrong in (other, plain):
                with pytest.raises(bf.ConnectError) as refused:
                    connect(wrong)
                assert isinstance(refused.value.__cause__, ssl.SSLError)
            with pytest.raises(bf.ConnectError, match="has a pin, and an authority is given too"):
                connect(url, authorities="authorities.pem")
            with pytest.raises(bf.ConnectError, match=r"nowhere\.pem") as unread:
                connect(plain, authorities="nowhere.pem")
            assert isinstance(unread.value.__cause__, ValueError)

    def test_a_token_is_shown() -> None:
        arguments = ("--listen", "quic://127.0.0.1:0", "--token", "right")
        with Server(CONFORMANCE, *arguments) as server:
            for token in ("", "wrong"):
                with pytest.raises(bf.BadToken):
                    connect(server.at("quic"), token=token)
            with connect(server.at("quic"), token="right") as s:
                assert s.lookup("probe", Probe).same_int(7).claim() == 7

    def test_nobody_is_there() -> None:
        begin = time.monotonic()
        with pytest.raises(bf.ConnectError, match=r"quic://127\.0\.0\.1:1"):
            connect("quic://127.0.0.1:1", timeout=1.0)
        assert time.monotonic() - begin < SOON

    def test_a_server_that_was_killed_is_lost() -> None:
        with Server(CONFORMANCE, *QUIC) as server:
            s = connect(server.at("quic"))
            probe = s.lookup("probe", Probe)
            assert probe.same_int(1).claim() == 1
            server.kill_and_start()
            begin = time.monotonic()
            with pytest.raises(
                bf.Closed, match=r"started again.*whether the last batch ran is not known"
            ):
                probe.same_int(2).claim()
            assert time.monotonic() - begin < SOON
            assert s.is_closed
            s.close()
            with connect(server.at("quic")) as again:
                assert again.lookup("probe", Probe).same_int(3).claim() == 3

    def test_a_server_that_was_killed_is_lost_to_tasks() -> None:
        async def main(server: Server) -> None:
            s = await aconnect(server.at("quic"))
            probe = s.lookup("probe", Probe)
            assert await probe.same_int(1) == 1
            await asyncio.to_thread(server.kill_and_start)
            with pytest.raises(bf.Closed, match="started again"):
                await probe.same_int(2)
            await s.close()

        with Server(CONFORMANCE, *QUIC) as server:
            asyncio.run(asyncio.wait_for(main(server), 60))
