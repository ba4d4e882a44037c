"""The examples of the project that have clients in Python: they print what the clients in Rust print."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from servers import (
    BIFROST,
    EXAMPLES,
    THUMBNAIL,
    THUMBNAIL_SERVER,
    Server,
    bifrost_environment,
)
from traders import Exporter, Trader, wait_until

PACKAGES = EXAMPLES / "packages"
THUMBNAILS = EXAMPLES / "thumbnails"


def packages(server: Server, *arguments: str) -> str:
    """What the client of the package index says."""
    done = subprocess.run(
        [sys.executable, "packages_client.py", *arguments],
        cwd=PACKAGES / "python",
        env={
            **os.environ,
            "BIFROST_URL": server.url,
            "PYTHONWARNINGS": "error",
            "PYTHONDONTWRITEBYTECODE": "1",
        },
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_the_package_index_is_imported_and_asked() -> None:
    with Server(PACKAGES / "packages.theta", "--store", "FOLDER/packages.store") as server:
        said = packages(server, "import", str(PACKAGES / "sample.txt"))
        said += packages(server, "closure", "wget")
        said += packages(server, "dependents", "libgcc-s1")
    assert said == (PACKAGES / "rust" / "output.txt").read_text()


@pytest.mark.parametrize(
    ("bifrost", "folder"), [(BIFROST, PACKAGES), (THUMBNAIL_SERVER, THUMBNAILS)]
)
def test_the_stubs_are_fresh(bifrost: str, folder: Path) -> None:
    program = str(folder / f"{folder.name}.theta")
    arguments = ["veneer", "--lang", "python", program, "-o", str(folder / "python"), "--check"]
    done = subprocess.run([bifrost, *arguments], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def pictures(folder: Path, count: int) -> list[str]:
    """Writes pictures of several sizes."""
    files = []
    for at in range(count):
        width, height = 300 + at, 600 - at
        pixels = bytes((x + y) % 256 for y in range(height) for x in range(width))
        file = folder / f"picture{at}.pgm"
        file.write_bytes(b"P5 %d %d 255\n" % (width, height) + pixels)
        files.append(str(file))
    return files


PYTHON_CLIENT = [sys.executable, str(THUMBNAILS / "python" / "thumbnail.py")]


def client(folder: Path, command: list[str], *arguments: str) -> subprocess.Popen[str]:
    """A client of the thumbnails."""
    return subprocess.Popen(
        [*command, *arguments],
        cwd=folder,
        env={**bifrost_environment(str(folder)), "PYTHONWARNINGS": "error"},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def thumbnail_server(trader: Trader) -> Server:
    """A server of thumbnails, which exports them."""
    export = ("--trader", trader.address, "--export", "thumbnails:Thumbnails")
    return Server(THUMBNAILS / "thumbnails.theta", *export, server=THUMBNAIL_SERVER)


def test_thumbnails_are_those_of_the_client_in_rust(tmp_path: Path) -> None:
    files = pictures(tmp_path, 6)
    (tmp_path / "none.png").write_text("not a picture")
    with Trader() as trader, thumbnail_server(trader) as server, Exporter(trader) as exports:
        wait_until("nothing is exported", lambda: exports.count(service="Thumbnails") == 1)
        url = trader.url(service="Thumbnails")
        arguments = ["--side", "64", "--service", url, "-o", "copies", *files, "none.png"]
        said = []
        for command in ([THUMBNAIL], PYTHON_CLIENT):
            process = client(tmp_path, command, *arguments)
            out, err = process.communicate(timeout=60)
            copies = sorted((tmp_path / "copies").iterdir())
            made = [(copy.name, copy.read_bytes()) for copy in copies]
            for copy in copies:
                copy.unlink()
            lines = sorted(line for line in out.splitlines() if "error" not in line)
            said.append((process.returncode, lines, err.splitlines(), made))
            # The texts of failures name places in the source of each.
            (error,) = (line for line in out.splitlines() if "error" in line)
            assert error.startswith("none.png: error: ")
            assert "no_picture" in error
        # A thread that ends before its time has made no copy.
        too_long = ("--side", str(1 << 63), "--service", url, files[0])
        process = client(tmp_path, PYTHON_CLIENT, *too_long)
        assert "OverflowError" in process.communicate(timeout=60)[1]
        assert process.returncode == 1
    assert said[0] == said[1]
    assert said[1][2] == [f"6 by {server.url}"]
    assert len(said[1][3]) == 6


def test_a_server_that_is_killed_costs_no_thumbnail(tmp_path: Path) -> None:
    count = 40
    with (
        Trader() as trader,
        thumbnail_server(trader) as first,
        thumbnail_server(trader),
        Exporter(trader) as exports,
    ):
        wait_until("nothing is exported", lambda: exports.count(service="Thumbnails") == 2)
        url = trader.url("prefer=spread", "Thumbnails")
        arguments = ["--side", "16", "--service", url, *pictures(tmp_path, count)]
        process = client(tmp_path, PYTHON_CLIENT, *arguments)
        assert process.stdout is not None
        # It is killed while pictures are under way.
        said = [process.stdout.readline() for _ in range(8)]
        first.process.send_signal(signal.SIGKILL)
        # Lines that came with those eight are in a buffer of which `communicate` knows nothing.
        said += process.stdout.read().splitlines()
        _, err = process.communicate(timeout=60)
    assert process.returncode == 0, (said, err)
    assert len(said) == count
    assert sum(int(line.split()[0]) for line in err.splitlines()) == count
    assert len(list((tmp_path / "thumbnails").iterdir())) == count


def test_a_client_of_thumbnails_says_what_is_wrong(tmp_path: Path) -> None:
    file = pictures(tmp_path, 1)[0]
    for arguments, text in (
        ([file], "BIFROST_TRADER"),
        (["--at-once", "65", file], "65 is not in 1..=64"),
        (["--at-once", "x", file], "x is not in 1..=64"),
        (["-o", f"{file}/copies", file], "error: cannot make the folder"),
    ):
        process = client(tmp_path, PYTHON_CLIENT, *arguments)
        out, err = process.communicate(timeout=60)
        assert process.returncode != 0
        assert text in out + err
