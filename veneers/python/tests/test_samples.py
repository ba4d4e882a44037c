"""The samples print what they promise; the explained run shows what crosses."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from servers import BIFROST, EXAMPLES, Server

SAMPLES = Path(__file__).resolve().parents[1] / "samples"
NAMES = sorted(path.name for path in SAMPLES.iterdir() if (path / "expected.txt").exists())


def run(name: str, url: str, *before: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, *before, f"{name}.py"],
        cwd=SAMPLES / name,
        env={
            **os.environ,
            "BIFROST_URL": url,
            "PYTHONWARNINGS": "error",
            "PYTHONDONTWRITEBYTECODE": "1",
        },
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


def test_there_are_five() -> None:
    assert len(NAMES) >= 5


@pytest.mark.parametrize("name", NAMES)
def test_a_sample(name: str) -> None:
    with Server(EXAMPLES / name / f"{name}.theta") as server:
        done = run(name, server.url)
    assert done.stderr == ""
    assert done.stdout == (SAMPLES / name / "expected.txt").read_text()


@pytest.mark.parametrize("name", NAMES)
def test_the_program_writes_the_stubs_of_a_sample(name: str) -> None:
    program = str(EXAMPLES / name / f"{name}.theta")
    arguments = ["veneer", "--lang", "python", program, "-o", str(SAMPLES / name), "--check"]
    done = subprocess.run([BIFROST, *arguments], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def test_the_database_prints_what_the_client_in_rust_prints() -> None:
    rust = EXAMPLES / "database" / "rust" / "tour.txt"
    assert (SAMPLES / "database" / "expected.txt").read_text() == rust.read_text()


def test_a_run_is_explained() -> None:
    with Server(EXAMPLES / "lists" / "lists.theta") as server:
        done = run("lists", server.url, "-m", "bifrost_veneer.explain")
    assert done.stdout == (SAMPLES / "lists" / "expected.txt").read_text()
    lines = done.stderr.splitlines()
    assert lines[:3] == [
        "> @1 := lookup squares: IntList",
        "> @2 := @1.next()",
        "> @3 := @2.next()",
    ]
    assert "> while" in lines
    assert any(line.startswith(">   @") and ".put(" in line for line in lines)
    assert any(":= nth(" in line for line in lines)
