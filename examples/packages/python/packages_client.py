"""Imports a Debian package index into the objects of ``packages.theta``, and asks them.

``bifrost veneer --lang python examples/packages/packages.theta -o examples/packages/python`` made the stubs.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from bifrost_stubs import Exists, Package, PackageIndex, Unmet, connect, package_list, package_set

from bifrost_veneer import Iter, Session

AT_ONCE = 250
"""How many packages are imported in one transaction."""

USAGE = "packages_client.py import FILE | closure NAME | dependents NAME, with BIFROST_URL set to a server of packages.theta"


@dataclass
class Paragraph:
    """What is used of a paragraph."""

    name: str = ""
    version: str = ""
    section: str = ""
    size: int = 0
    """Installed, in KiB."""
    provides: list[str] = field(default_factory=list)
    """Names that the package stands for."""
    needs: list[list[str]] = field(default_factory=list)
    """For each need the names of which any will do."""


def name(relation: str) -> str:
    """The name in ``libc6:any (>= 2.34)``."""
    words = relation.split()
    return words[0].split(":")[0] if words else ""


def paragraphs(text: str) -> Iterator[Paragraph]:
    """The packages of an index. Paragraphs without a name, and fields that are not used, are passed over."""
    for paragraph in text.split("\n\n"):
        found = Paragraph()
        for line in paragraph.splitlines():
            # A line that begins with a blank goes on with the field before.
            key, colon, value = line.partition(":")
            if line[:1] in (" ", "\t") or not colon:
                continue
            value = value.strip()
            match key:
                case "Package":
                    found.name = value
                case "Version":
                    found.version = value
                case "Section":
                    found.section = value
                case "Installed-Size":
                    found.size = int(value) if value.isdigit() else 0
                case "Provides":
                    found.provides = [n for n in map(name, value.split(",")) if n]
                case "Depends" | "Pre-Depends":
                    needs = (
                        [n for n in map(name, need.split("|")) if n] for need in value.split(",")
                    )
                    found.needs += [need for need in needs if need]
        if found.name:
            yield found


def import_index(s: Session, packages: PackageIndex, text: str) -> None:
    """Imports an index, a few hundred packages in each transaction and each crossing."""
    found = list(paragraphs(text))
    for first in range(0, len(found), AT_ONCE):

        def some(first: int = first) -> None:
            for one in found[first : first + AT_ONCE]:
                # One name may stand twice, for two architectures: the first is taken.
                with s.except_():
                    p = packages.add(one.name, one.version, one.section, one.size)
                    for provided in one.provides:
                        packages.provide(p, provided)
                    for need in one.needs:
                        packages.need(p, " ".join(need))
                with s.when(Exists):
                    pass

        s.transaction(some)
    length = packages.length().claim()
    print(f"{length} packages, {s.counters.calls} calls in {s.counters.crossings} crossings")


def show(s: Session, title: str, found: Iter[Package]) -> None:
    """Prints the packages of a loop: one crossing, whatever their number."""
    before = s.counters.crossings
    rows = s.collect(found, lambda p: (p.name(), p.size())).claim()
    print(f"{title}: {' '.join(sorted(name for name, _ in rows))}")
    crossings = s.counters.crossings - before
    print(f"{len(rows)} packages, {sum(size for _, size in rows)} KiB, {crossings} crossing")


def by_hand(s: Session, p: Package) -> None:
    """The closure once more, by a client that has no method for it: the same walk as a batch, over the graph where
    it is."""
    before = s.counters.crossings
    work, seen, unmet = package_list(s), package_set(s), s.cell(0)
    seen.store(p.name(), p)
    work.append(p)
    with s.while_(lambda: work.length() > 0):
        found = work.remove()
        with s.foreach(found.needs()) as need:
            with s.except_():
                q = need.choice()
                with s.if_(~seen.contains(q.name())):
                    seen.store(q.name(), q)
                    work.append(q)
            with s.when(Unmet):
                unmet.put(unmet.get() + 1)
    count, missing = seen.length(), unmet.get()
    crossings = (count.claim(), s.counters.crossings - before)
    print(
        f"as structures: {crossings[0]} packages, {missing.claim()} needs unmet, {crossings[1]} crossing"
    )


def main(arguments: list[str]) -> None:
    url = os.environ.get("BIFROST_URL")
    if len(arguments) != 2 or not url:
        sys.exit(USAGE)
    command, argument = arguments
    with connect(url) as s:
        packages = s.lookup("packages", PackageIndex)
        match command:
            case "import":
                import_index(s, packages, Path(argument).read_text(encoding="utf-8"))
            case "closure":
                p = packages.package(argument)
                show(s, f"{argument} needs", packages.closure(p))
                by_hand(s, p)
            case "dependents":
                p = packages.package(argument)
                show(s, f"not without {argument}", packages.dependents(p))
            case _:
                sys.exit(USAGE)


if __name__ == "__main__":
    main(sys.argv[1:])
