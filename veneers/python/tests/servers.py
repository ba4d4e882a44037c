"""Servers under test as child processes: none outlives its test."""

from __future__ import annotations

import os
import signal
import subprocess
import tempfile
from pathlib import Path
from types import TracebackType

ROOT = Path(__file__).resolve().parents[3]
BIFROST = os.environ.get("BIFROST_BIN", str(ROOT / "target" / "debug" / "bifrost"))
#: The program and the client of `examples/thumbnails`, which `cargo build -p thumbnails` makes.
THUMBNAIL_SERVER = str(Path(BIFROST).with_name("thumbnail-server"))
THUMBNAIL = str(Path(BIFROST).with_name("thumbnail"))
CONFORMANCE = ROOT / "cases" / "programs" / "conformance.theta"
EXAMPLES = ROOT / "examples"


def bifrost_environment(folder: str) -> dict[str, str]:
    """The environment without the settings of whoever runs the tests."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith("BIFROST_")}
    # A certificate that it makes is its own.
    return kept | {"XDG_STATE_HOME": folder}


class Server:
    """A server that is ready, at ``unix:///FOLDER/socket`` and wherever the arguments say."""

    def __init__(self, program: Path, *arguments: str, server: str = BIFROST) -> None:
        self._folder = tempfile.TemporaryDirectory(prefix="bifrost-python-")
        self.folder = Path(self._folder.name)
        listen = ["--listen", f"unix://{self.folder}/socket"]
        rest = [argument.replace("FOLDER", str(self.folder)) for argument in arguments]
        self._command = [server, "serve", *listen, *rest, str(program)]
        self._start()

    def _start(self) -> None:
        self.process = subprocess.Popen(
            self._command,
            cwd=self.folder,
            env=bifrost_environment(str(self.folder)),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        assert self.process.stdout is not None
        line = self.process.stdout.readline()
        if not line.startswith("ready "):
            _, said = self.process.communicate()
            self._folder.cleanup()
            raise AssertionError(f"the server did not start: {said}")
        self.urls = line.split()[1:]

    @property
    def url(self) -> str:
        """The address of the unix socket."""
        return self.urls[0]

    def at(self, scheme: str) -> str:
        """The address with this scheme."""
        return next(url for url in self.urls if url.startswith(f"{scheme}://"))

    def kill(self) -> None:
        """Kills it."""
        self.process.send_signal(signal.SIGKILL)
        self.process.communicate()

    def kill_and_start(self) -> None:
        """Kills it, and starts it again: with the same key, at the same address of QUIC."""
        place = self.at("quic").partition("#")[0]
        self.kill()
        self._command = [place if "quic://" in part else part for part in self._command]
        self._start()

    def __enter__(self) -> Server:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)
            # A test may have stopped it.
            self.process.send_signal(signal.SIGCONT)
        self.process.communicate(timeout=20)
        self._folder.cleanup()
