"""The native library, an accelerator that is never needed.

The package ``bifrost_native`` has the recorder in machine code, and connections over shared memory
and QUIC. It is used if it is installed, unless the variable ``BIFROST_NATIVE`` is ``0`` or the
session was opened with ``native=False``. With ``BIFROST_NATIVE=1`` it must be there.

Both packages have one version. A session over it sends the same bytes and raises the same errors.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from .recorder.crossing import Recorder
    from .recorder.numbers import Numbers
    from .recorder.state import Settings

#: The version of this package.
VERSION: Final = "0.1.0"
#: The interface between the packages. Development changes it without the version.
INTERFACE: Final = 3

_NAME = "bifrost_native"
_ANYWAY = "or set BIFROST_NATIVE=0 to record without it"


def _load() -> Any:
    """Returns the library; None if sessions do without. Raises ImportError."""
    setting = os.environ.get("BIFROST_NATIVE", "")
    if setting not in ("", "0", "1"):
        raise ImportError(f"BIFROST_NATIVE is 0 or 1, not `{setting}`")
    if setting == "0":
        return None
    try:
        import bifrost_native  # type: ignore[import-not-found, unused-ignore]
    except ModuleNotFoundError as error:
        if error.name != _NAME:
            raise
        if setting == "1":
            raise ImportError(f"BIFROST_NATIVE is 1, and {_NAME} is not installed") from None
        return None
    except ImportError as error:
        raise ImportError(
            f"{_NAME} is installed, but cannot be loaded: install it anew, {_ANYWAY}"
        ) from error
    found = (bifrost_native.__version__, bifrost_native.INTERFACE)
    if found != (VERSION, INTERFACE):
        raise ImportError(
            f"{_NAME} {found[0]} (interface {found[1]}) is installed, and bifrost_veneer {VERSION} needs "
            f"{VERSION} (interface {INTERFACE}): install both of one version, {_ANYWAY}"
        )
    return bifrost_native


#: The library, or None.
module: Final[Any] = _load()

#: True if sessions are recorded without it, to be looked into.
is_off = False


def make_recorder(
    numbers: Numbers, settings: Settings, welcome: bytes, interface: bytes
) -> Recorder:
    """Returns the library's recorder of a session that was greeted. ``welcome`` and ``interface`` are
    the replies of the server. Raises ValueError.
    """
    try:
        text = numbers.stubs.text()
    except OSError:
        # The names in messages are unknown then; numbers are not mapped without it.
        text = ""
    core: Recorder = module.make_core(
        numbers, text, welcome, interface, settings.reply_bytes_max, settings.remap_futures
    )
    return core
