"""The native library: who uses it, shared memory, and sessions that do without it.

The other tests run twice, with the variable ``BIFROST_NATIVE``: without the library and with it.
"""

from __future__ import annotations

import asyncio
import gc
import os
import signal
import subprocess
import sys
import threading
import time
import weakref
from pathlib import Path
from typing import Any

import pytest
from conformance.bifrost_stubs import INTERFACE, Probe, aconnect, connect
from script import Machine
from servers import CONFORMANCE, Server
from test_vectors import CASES, CLIENT, OUTPUTS, random_cases

import bifrost_veneer as bf
from bifrost_veneer import native
from bifrost_veneer.io.address import AddressError, parse_address
from bifrost_veneer.recorder import Recorder, Settings

IS_THERE = native.module is not None
SHM = ("--listen", "shm://FOLDER/shm")
SOURCES = Path(bf.__file__).resolve().parents[1]


def python(code: str, **environment: str) -> subprocess.CompletedProcess[str]:
    """Runs a program in an interpreter of its own."""
    kept = {name: value for name, value in os.environ.items() if name != "BIFROST_NATIVE"}
    return subprocess.run(
        [sys.executable, "-c", code],
        env=kept | environment,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )


# Who uses it.


def test_the_variable_says_what_is_tested() -> None:
    setting = os.environ.get("BIFROST_NATIVE")
    assert setting in (None, "0", "1")
    if setting is not None:
        assert (setting == "1") == IS_THERE


def test_a_session_says_who_records() -> None:
    with Server(CONFORMANCE) as server:
        with connect(server.url) as s:
            assert s.native == IS_THERE
            assert isinstance(s.core, Recorder) != IS_THERE
        with connect(server.url, native=False) as s:
            assert not s.native
            probe = s.lookup("probe", Probe)
            assert probe.same_int(7).claim() == 7
            assert not s.native
        if IS_THERE:
            with connect(server.url, native=True) as s:
                assert s.native
        else:
            with pytest.raises(bf.ConnectError, match="needs the package bifrost_native"):
                connect(server.url, native=True)


def test_awaited_sessions_say_it_too() -> None:
    async def main(url: str) -> None:
        async with aconnect(url) as s:
            assert s.native == IS_THERE
        async with aconnect(url, native=False) as s:
            assert not s.native
            assert await s.lookup("probe", Probe).same_int(7) == 7

    with Server(CONFORMANCE) as server:
        asyncio.run(main(server.url))


@pytest.mark.parametrize(
    ("setting", "said"),
    [
        ("1", "BIFROST_NATIVE is 1, and bifrost_native is not installed"),
        ("yes", "0 or 1, not `yes`"),
    ],
)
def test_a_library_that_is_not_there(setting: str, said: str) -> None:
    # `-S` and a path of its own: nothing that is installed is found.
    code = f"import sys; sys.path[:0] = [{str(SOURCES)!r}]; import bifrost_veneer"
    kept = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    alone = subprocess.run(
        [sys.executable, "-S", "-c", code],
        env=kept | {"BIFROST_NATIVE": setting},
        cwd="/",
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    if IS_THERE and setting == "1" and SOURCES in Path(native.module.__file__).resolve().parents:
        # Both are installed in one folder.
        assert alone.returncode == 0, alone.stderr
        return
    assert alone.returncode == 1
    assert said in alone.stderr


@pytest.mark.parametrize(
    ("version", "interface"), [("0.0.1", native.INTERFACE), (native.VERSION, 0)]
)
def test_a_library_of_another_version(tmp_path: Path, version: str, interface: int) -> None:
    other = f"__version__ = {version!r}\nINTERFACE = {interface}\n"
    (tmp_path / "bifrost_native.py").write_text(other)
    code = (
        f"import sys; sys.path[:0] = [{str(tmp_path)!r}, {str(SOURCES)!r}]\n"
        "import bifrost_veneer.native as n; print(n.module)"
    )
    mismatch = python(code)
    assert mismatch.returncode == 1
    assert f"bifrost_native {version} (interface {interface}) is installed" in mismatch.stderr
    assert f"needs {native.VERSION} (interface {native.INTERFACE})" in mismatch.stderr
    assert "BIFROST_NATIVE=0" in mismatch.stderr
    assert python(code, BIFROST_NATIVE="0").stdout == "None\n"


def test_a_library_that_cannot_be_loaded(tmp_path: Path) -> None:
    (tmp_path / "bifrost_native.py").write_text("raise ImportError('no such symbol')")
    code = (
        f"import sys; sys.path[:0] = [{str(tmp_path)!r}, {str(SOURCES)!r}]; import bifrost_veneer"
    )
    broken = python(code)
    assert broken.returncode == 1
    assert "bifrost_native is installed, but cannot be loaded" in broken.stderr
    assert "no such symbol" in broken.stderr


# Sessions that do without it, while it is there: their stubs have the same classes.


class WithoutIt(Machine):
    """A script whose session is recorded in Python."""

    def settings(self) -> Settings:
        return Settings(use_native=False)


@pytest.mark.parametrize("case", CASES, ids=lambda case: case["case"])
def test_scripts_without_it(case: dict[str, Any]) -> None:
    machine = WithoutIt(CLIENT, case)
    assert isinstance(machine.recorder, Recorder)
    outputs = machine.run(case["script"])
    for name in OUTPUTS:
        assert outputs[name] == case[name], name


def test_random_scripts_without_it() -> None:
    for case in random_cases()[:100]:
        outputs = WithoutIt(CLIENT, case).run(case["script"])
        assert [c["sent"] for c in outputs["crossings"]] == [c["sent"] for c in case["crossings"]]
        assert outputs["known"] == case["known"]


def test_two_sessions_of_both_kinds_do_not_mix() -> None:
    with (
        Server(CONFORMANCE) as server,
        connect(server.url) as one,
        connect(server.url, native=False) as other,
    ):
        first, second = one.lookup("probe", Probe), other.lookup("probe", Probe)
        counter = second.counter()
        for foreign in (first.same_int(second.same_int(1)), second.same_int(first.same_int(1))):
            with pytest.raises(bf.Misuse, match="belongs to another session"):
                foreign.claim()
        assert counter.value().claim() == 0
        assert first.same_int(1).claim() == 1


def test_both_send_the_same_and_say_the_same() -> None:
    def work(s: bf.Session, probe: Probe) -> list[Any]:
        said: list[Any] = []
        value = probe.same_int(3) + 4
        said.append(s.explain())
        said.append(value.claim())
        failed = probe.item("zoe")
        after = failed.name()
        try:
            after.claim()
        except bf.Signal as error:
            said += [str(error), error.__notes__, error.values, str(error.failure)]
        said += [repr(failed), repr(after), repr(value)]
        with pytest.raises(bf.Misuse) as misuse, s.if_(probe.same_bool(True)):
            probe.same_int(1).claim()
        said.append(str(misuse.value))
        s.break_()
        try:
            s.flush()
        except bf.Unseen as unseen:
            said += [str(unseen), [str(one) for one in unseen.failures]]
        said.append([str(one) for one in s.exceptions()])
        said.append(repr(s.counters))
        return said

    def outcome(url: str, **options: Any) -> list[Any]:
        with connect(url, **options) as s:
            return work(s, s.lookup("probe", Probe))

    with Server(CONFORMANCE) as server:
        assert outcome(server.url) == outcome(server.url, native=False)


# Stubs and Python's collector.


def test_sessions_and_stubs_are_collected() -> None:
    with Server(CONFORMANCE) as server:
        s = connect(server.url)
        probe: Any = s.lookup("probe", Probe)
        s.flush()
        # A circle of the session, its recorder and a stub.
        s.kept = probe  # type: ignore[attr-defined]
        gone = weakref.ref(s)
        s.close()
        del s, probe
        gc.collect()
        assert gone() is None


def test_stubs_may_be_dropped_by_another_thread() -> None:
    with Server(CONFORMANCE) as server, connect(server.url) as s:
        probe = s.lookup("probe", Probe)
        kept = [probe.fresh() for _ in range(2000)]
        s.flush()
        before = len(s.core.handles)
        dropping = threading.Thread(target=kept.clear)
        dropping.start()
        for n in range(200):
            assert probe.same_int(n).claim() == n
        dropping.join()
        s.flush()
        probe.same_int(1).claim()
        assert len(s.core.handles) <= before - 2000


def test_places_are_bounded() -> None:
    code = """
import sys
from conformance.bifrost_stubs import Probe, connect
from servers import CONFORMANCE, Server
import bifrost_veneer as bf
with Server(CONFORMANCE) as server, connect(server.url) as s:
    probe = s.lookup("probe", Probe)
    s.flush()
    for n in range(66_000):
        exec(f"probe.same_int({n})")
    try:
        exec("probe.item('zoe').name().claim()")
    except bf.Signal as error:
        print(error.call.place, error)
"""
    tests = str(Path(__file__).parent)
    done = python(
        f"import sys; sys.path[:0] = [{tests!r}]\n{code}", BIFROST_NATIVE=str(int(IS_THERE))
    )
    assert done.returncode == 0, done.stderr
    place = "None" if IS_THERE else "<string>:1"
    shown = "" if IS_THERE else " at <string>:1"
    assert done.stdout == f'{place} Probe.item{shown} signalled not_found("zoe", 4)\n'


# Shared memory.


def test_shared_memory_is_an_address_with_the_library_only() -> None:
    if not IS_THERE:
        with pytest.raises(AddressError, match="needs the package bifrost_native"):
            parse_address("shm:///run/bifrost/shm")
        return
    address = parse_address("shm:///run/bifrost/shm")
    assert (address.scheme, address.path, str(address)) == (
        "shm",
        "/run/bifrost/shm",
        "shm:///run/bifrost/shm",
    )
    assert address.is_private
    assert not address.may_ask_for_token
    for wrong in ("shm://run", "shm:///run/"):
        with pytest.raises(AddressError, match="shm:///run/bifrost/main"):
            parse_address(wrong)


if IS_THERE:

    def test_shared_memory_without_a_server(tmp_path: Path) -> None:
        url = f"shm://{tmp_path}/nobody"
        with pytest.raises(bf.ConnectError, match=f"no connection to {url}: .*No such file"):
            connect(url)
        with pytest.raises(bf.ConnectError, match="No such file"):
            asyncio.run(_open(url))

    async def _open(url: str) -> None:
        await aconnect(url)

    def test_a_unix_socket_is_no_shared_memory() -> None:
        with Server(CONFORMANCE) as server:
            url = server.url.replace("unix://", "shm://")
            with pytest.raises(bf.ConnectError):
                connect(url, timeout=0.5)

    def test_shared_memory_records_in_python_too() -> None:
        with Server(CONFORMANCE, *SHM) as server, connect(server.at("shm"), native=False) as s:
            assert not s.native
            assert s.lookup("probe", Probe).same_int(7).claim() == 7

    def test_a_killed_server_is_told() -> None:
        with Server(CONFORMANCE, *SHM) as server:
            s = connect(server.at("shm"))
            probe = s.lookup("probe", Probe)
            s.flush()
            server.kill()
            begin = time.monotonic()
            with pytest.raises(bf.Closed, match="the server closed the connection"):
                probe.same_int(1).claim()
            assert time.monotonic() - begin < 5
            assert s.is_closed
            s.close()

    def test_a_killed_server_is_told_to_tasks() -> None:
        async def main(server: Server) -> None:
            s = await aconnect(server.at("shm"))
            probe = s.lookup("probe", Probe)
            await s.flush()
            server.kill()
            with pytest.raises(bf.Closed):
                await probe.same_int(1)
            await s.close()

        with Server(CONFORMANCE, *SHM) as server:
            asyncio.run(asyncio.wait_for(main(server), 20))

    def test_ctrl_c_ends_a_wait_and_others_run() -> None:
        with Server(CONFORMANCE, *SHM) as server:
            s = connect(server.at("shm"))
            probe = s.lookup("probe", Probe)
            probe.same_int(1).claim()
            turns = []

            def interrupt() -> None:
                # The claim waits without the lock of the interpreter.
                for _ in range(20):
                    turns.append(time.monotonic())
                    time.sleep(0.01)
                os.kill(os.getpid(), signal.SIGINT)

            thread = threading.Thread(target=interrupt)
            waiting = s.wait(20)
            thread.start()
            begin = time.monotonic()
            with pytest.raises(KeyboardInterrupt):
                waiting.claim()
            assert time.monotonic() - begin < 5
            thread.join()
            assert len(turns) == 20
            with pytest.raises(bf.Closed, match="interrupted"):
                probe.same_int(1).claim()
            s.close()

    def test_an_answer_has_a_time_limit_in_shared_memory() -> None:
        with Server(CONFORMANCE, *SHM) as server:
            s = connect(server.at("shm"), timeout=0.3)
            probe = s.lookup("probe", Probe)
            probe.same_int(1).claim()
            server.process.send_signal(signal.SIGSTOP)
            os.waitpid(server.process.pid, os.WUNTRACED)
            try:
                with pytest.raises(bf.Closed, match="did not answer in time"):
                    probe.same_int(1).claim()
            finally:
                server.process.send_signal(signal.SIGCONT)
            s.close()

    def test_much_more_than_a_ring() -> None:
        text = "x" * 900_000
        with Server(CONFORMANCE, *SHM) as server, connect(server.at("shm")) as s:
            probe = s.lookup("probe", Probe)
            batches = []
            for _ in range(8):
                batches.append(probe.same_string(text))
                s.send_batch()
            assert [len(one.claim()) for one in batches] == [len(text)] * 8

    def test_a_connection_is_closed_once() -> None:
        with Server(CONFORMANCE, *SHM) as server:
            connection = native.module.connect(server.at("shm"), 5.0)
            assert connection.try_read() is None
            connection.close()
            connection.close()
            for use in (
                connection.try_read,
                lambda: connection.try_write(b"x"),
                lambda: connection.read(time.monotonic() + 1),
                lambda: connection.wait(True, time.monotonic() + 1),
                connection.split,
            ):
                with pytest.raises(ConnectionError, match="closed the connection"):
                    use()
            with pytest.raises(ValueError, match="is no address of shared memory or QUIC"):
                native.module.connect("tcp://localhost:1", 1.0)

    def test_the_greeting_is_checked() -> None:
        numbers: Any = type("Numbers", (), {"stubs": INTERFACE})()
        with pytest.raises(ValueError, match="reply"):
            native.module.make_core(numbers, "{}", b"\xff" * 16, b"", 1 << 20, 16_384)
        with pytest.raises(ValueError, match="not over"):
            native.module.make_core(numbers, "{}", b"", b"", 1 << 20, 16_384)
