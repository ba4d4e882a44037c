"""A PostgreSQL server for one run of the tests: in a folder of its own, reached by a socket there."""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
import time
from pathlib import Path

#: The user that runs the server if the tests are run by root, for whom it does not start.
_NOBODY = 65534


def _programs() -> Path:
    """The folder of the server's programs."""
    installed = sorted(Path("/usr/lib/postgresql").glob("*/bin"), reverse=True)
    on_path = [Path(folder) for folder in os.environ.get("PATH", "").split(os.pathsep)]
    for folder in [*installed, *on_path]:
        if all((folder / name).is_file() for name in ("initdb", "postgres", "psql")):
            return folder
    raise AssertionError(
        "the programs of a PostgreSQL server are not here: on Debian `apt-get install postgresql`"
    )


class Cluster:
    """A running server, until the end of the ``with`` statement."""

    def __init__(self) -> None:
        self._programs = _programs()
        self._folder = Path(tempfile.mkdtemp(prefix="bifrost-postgres-"))
        self._user = _NOBODY if os.getuid() == 0 else None
        if self._user is not None:
            os.chown(self._folder, self._user, self._user)
        self._schemas = 0
        self._run("initdb", "-D", "data", "-U", "bifrost", "-A", "trust", "-E", "UTF8", "--no-sync")
        settings = [
            *("listen_addresses=", "fsync=off", "full_page_writes=off"),
            *("max_connections=50", "shared_buffers=16MB"),
        ]
        arguments = [part for setting in settings for part in ("-c", setting)]
        self._log = open(self._folder / "log", "wb")  # noqa: SIM115
        self._server = subprocess.Popen(
            [self._programs / "postgres", "-D", "data", "-k", str(self._folder), *arguments],
            cwd=self._folder,
            user=self._user,
            stdin=subprocess.DEVNULL,
            stdout=self._log,
            stderr=self._log,
        )
        start = time.monotonic()
        while not self._sql("SELECT 1"):
            text = (self._folder / "log").read_text()
            assert time.monotonic() - start < 60, f"the database server does not start: {text}"
            time.sleep(0.05)

    def _run(self, program: str, *arguments: str) -> None:
        done = subprocess.run(
            [self._programs / program, *arguments],
            cwd=self._folder,
            user=self._user,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0, done.stderr

    def _sql(self, text: str) -> bool:
        where = ["-h", str(self._folder), "-U", "bifrost", "-d", "postgres"]
        psql = [
            str(self._programs / "psql"),
            "-X",
            "-q",
            "-v",
            "ON_ERROR_STOP=1",
            *where,
            "-c",
            text,
        ]
        return subprocess.run(psql, capture_output=True, check=False).returncode == 0

    def fresh(self) -> str:
        """The URL of a new place for a store."""
        self._schemas += 1
        schema = f"s{self._schemas}"
        assert self._sql(f"CREATE SCHEMA {schema}")
        folder = str(self._folder).replace("/", "%2F")
        return f"postgres://bifrost@{folder}/postgres?options=-csearch_path%3D{schema}"

    def __enter__(self) -> Cluster:
        return self

    def __exit__(self, *ended: object) -> None:
        self._server.terminate()
        try:
            self._server.wait(timeout=20)
        except subprocess.TimeoutExpired:
            self._server.kill()
            self._server.wait()
        self._log.close()
        shutil.rmtree(self._folder, ignore_errors=True)
