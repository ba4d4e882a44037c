"""The examples of the project that have clients in Python: they print what the clients in Rust print."""

from __future__ import annotations

import os
import subprocess
import sys

from servers import BIFROST, EXAMPLES, Server

PACKAGES = EXAMPLES / "packages"


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


def test_the_stubs_are_fresh() -> None:
    program = str(PACKAGES / "packages.theta")
    arguments = ["veneer", "--lang", "python", program, "-o", str(PACKAGES / "python"), "--check"]
    done = subprocess.run([BIFROST, *arguments], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
