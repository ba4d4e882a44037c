"""Runs the first client of the README, and compares its output. Needs nothing but the package
itself.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from servers import EXAMPLES, Server

PACKAGE = Path(__file__).resolve().parents[1]


def block(text: str, name: str) -> str:
    """The block of code behind a mark."""
    found = re.search(rf"<!-- {name} -->\n```\w+\n(.*?)```", text, re.DOTALL)
    assert found is not None, f"the README has no {name}"
    return found.group(1)


def main() -> int:
    text = (PACKAGE / "README.md").read_text(encoding="utf-8")
    stubs = PACKAGE / "samples" / "database"
    with (
        tempfile.TemporaryDirectory() as folder,
        Server(EXAMPLES / "database" / "database.theta") as server,
    ):
        for name in ("bifrost_stubs.py", "bifrost_stubs.interface.json"):
            shutil.copy(stubs / name, folder)
        client = Path(folder) / "client.py"
        client.write_text(block(text, "client"), encoding="utf-8")
        environment = {**os.environ, "BIFROST_URL": server.url, "PYTHONWARNINGS": "error"}
        done = subprocess.run(
            [sys.executable, str(client)],
            env=environment,
            capture_output=True,
            text=True,
            check=False,
        )
    expected = block(text, "output")
    if done.stdout == expected and done.returncode == 0:
        print("the client of the README prints what the README says")
        return 0
    print(f"expected:\n{expected}\nprinted:\n{done.stdout}\n{done.stderr}", file=sys.stderr)
    return 1


if __name__ == "__main__":
    raise SystemExit(main())
