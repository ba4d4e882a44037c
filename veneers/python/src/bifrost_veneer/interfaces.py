"""Interfaces of servers, kept by their digests: in memory with the classes that were made of them,
and in files for other processes.

A server tells the digest of its interface when it is greeted. If the interface is known, it is not
asked for, and sessions with equal interfaces have the same classes.

The files are ``$XDG_CACHE_HOME/bifrost/interfaces/DIGEST.json``, below ``~/.cache`` if the variable
is not set. An interface is only kept if it has the digest that its server has told: another server
would get it later. What cannot be read or written is as if it were not there.
"""

from __future__ import annotations

import hashlib
import json
import os
import tempfile
import threading
from collections import OrderedDict
from pathlib import Path
from typing import TYPE_CHECKING, Any

from .blake3 import blake3

if TYPE_CHECKING:
    from collections.abc import Callable

    from .recorder.numbers import Stubs

#: The most interfaces with their classes that a process keeps.
STUBS_MAX = 16
#: The most files; those that were used longest ago are removed.
FILES_MAX = 64
#: The most bytes of an interface that is kept.
BYTES_MAX = 1 << 20


def digest_of(text: bytes) -> bytes:
    """Returns the digest of an interface, which leaves comments out. Raises ValueError."""
    try:
        interface: Any = json.loads(text)
        for ty in interface["types"]:
            ty.pop("doc", None)
            for method in ty.get("methods", ()):
                method.pop("doc", None)
        for routine in interface["routines"]:
            routine.pop("doc", None)
    except (KeyError, TypeError, AttributeError, RecursionError) as error:
        raise ValueError("it is no interface") from error
    return blake3(json.dumps(interface, ensure_ascii=False, separators=(",", ":")).encode())


def default_folder() -> Path | None:
    """Returns the folder of the files; None if the user has no home."""
    set_ = os.environ.get("XDG_CACHE_HOME", "")
    if os.path.isabs(set_):
        return Path(set_) / "bifrost" / "interfaces"
    try:
        return Path.home() / ".cache" / "bifrost" / "interfaces"
    except RuntimeError:
        return None


class Files:
    """The interfaces in a folder. A file has a line with the SHA-256 of what follows."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def _file(self, digest: bytes) -> Path:
        return self._folder / f"{digest.hex()}.json"

    def read(self, digest: bytes) -> bytes | None:
        """Returns an interface, if it is there and whole."""
        file = self._file(digest)
        try:
            with open(file, "rb") as opened:
                data = opened.read(BYTES_MAX + 100)
            os.utime(file)
        except OSError:
            return None
        line, _, text = data.partition(b"\n")
        return text if line == hashlib.sha256(text).hexdigest().encode() else None

    def write(self, digest: bytes, text: bytes) -> None:
        """Writes an interface, and removes the oldest ones if there are too many."""
        try:
            self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            handle, name = tempfile.mkstemp(dir=self._folder, suffix=".new")
            try:
                with open(handle, "wb") as file:
                    file.write(hashlib.sha256(text).hexdigest().encode() + b"\n" + text)
                os.replace(name, self._file(digest))
            except BaseException:
                os.unlink(name)
                raise
            self._remove_oldest()
        except OSError:
            return

    def _remove_oldest(self) -> None:
        files = sorted(self._folder.glob("*.json"), key=lambda file: file.stat().st_mtime)
        for file in files[: max(len(files) - FILES_MAX, 0)]:
            file.unlink(missing_ok=True)


class Known:
    """The interfaces that are known, with the classes that ``make`` has made of them."""

    def __init__(self, make: Callable[[bytes, bytes], Stubs], files: Files | None = None) -> None:
        self._make = make
        self._files = files
        self._stubs: OrderedDict[bytes, Stubs] = OrderedDict()
        self._lock = threading.Lock()

    def find(self, digest: bytes) -> Stubs | None:
        """Returns the stubs of a digest, if its interface is known."""
        with self._lock:
            found = self._stubs.get(digest)
            if found is not None:
                self._stubs.move_to_end(digest)
                return found
        files = self._its_files()
        text = None if files is None else files.read(digest)
        if text is None:
            return None
        try:
            return self._keep(digest, self._make(text, digest))
        except ValueError:
            return None

    def make(self, text: bytes, digest: bytes) -> Stubs:
        """Makes the stubs of an interface that a server has described. Raises ValueError."""
        made = self._make(text, digest)
        if len(text) > BYTES_MAX or digest_of(text) != digest:
            return made
        files = self._its_files()
        if files is not None:
            files.write(digest, text)
        return self._keep(digest, made)

    def _its_files(self) -> Files | None:
        if self._files is not None:
            return self._files
        folder = default_folder()
        return None if folder is None else Files(folder)

    def _keep(self, digest: bytes, made: Stubs) -> Stubs:
        with self._lock:
            # Another thread may have been faster: its classes are in use.
            kept = self._stubs.setdefault(digest, made)
            self._stubs.move_to_end(digest)
            while len(self._stubs) > STUBS_MAX:
                self._stubs.popitem(last=False)
            return kept
