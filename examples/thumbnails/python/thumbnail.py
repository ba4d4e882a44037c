"""Makes thumbnails of pictures by the servers that a trader knows: ``thumbnail.py -o DIR PICTURE...``.

``thumbnail-server veneer --lang python examples/thumbnails/thumbnails.theta -o examples/thumbnails/python`` made the
stubs.
"""

from __future__ import annotations

import argparse
import sys
import threading
from collections import Counter
from pathlib import Path

from bifrost_stubs import Thumbnails

from bifrost_veneer import BifrostError, ServerLost, Service, Session

TRIES = 5
"""The tries of a picture: to make a copy twice does no harm, so a server may be lost on the way."""

AT_ONCE_MAX = 64


class Work:
    """The pictures, which several threads take one after the other, and the account of them."""

    def __init__(self, args: argparse.Namespace) -> None:
        self._args = args
        self._left = list(reversed(args.pictures))
        self._lock = threading.Lock()
        self.made: Counter[str] = Counter()

    def next(self) -> Path | None:
        """Takes the next picture."""
        with self._lock:
            return self._left.pop() if self._left else None

    def run(self) -> None:
        """Makes copies until no picture is left, with a server of its own choice."""
        with Service(Thumbnails, self._args.service) as service:
            while (picture := self.next()) is not None:
                try:
                    server, line = make(service, picture, self._args)
                except (BifrostError, OSError) as error:
                    with self._lock:
                        print(f"{picture}: error: {error}", flush=True)
                    continue
                with self._lock:
                    self.made[server] += 1
                    print(line, flush=True)


def make(service: Service[Thumbnails], picture: Path, args: argparse.Namespace) -> tuple[str, str]:
    """Makes the copy of a picture. Returns the server, and a line for the user."""
    data = picture.read_bytes()

    def shrink(_: Session, thumbnails: Thumbnails) -> tuple[int, int, bytes]:
        small = thumbnails.shrink(data, args.side)
        # One crossing: all is asked for before the first claim.
        width, height, png = small.width(), small.height(), small.png()
        return width.claim(), height.claim(), png.claim()

    for attempt in range(1, TRIES + 1):
        try:
            width, height, png = service.run(shrink)
            break
        except ServerLost:
            if attempt == TRIES:
                raise
    file: Path = args.output / f"{picture.stem}.png"
    file.write_bytes(png)
    server = "" if service.server is None else service.server.address
    return server, f"{picture}: {width} x {height}, {file}"


def at_once(text: str) -> int:
    """Reads a number of pictures."""
    if not text.isdigit() or not 1 <= int(text) <= AT_ONCE_MAX:
        raise argparse.ArgumentTypeError(f"{text} is not in 1..={AT_ONCE_MAX}")
    return int(text)


def main() -> int:
    parser = argparse.ArgumentParser(
        description="Make small copies of pictures by the servers of a service"
    )
    parser.add_argument("pictures", nargs="+", type=Path, help="pictures in PNG, JPEG or PNM")
    parser.add_argument(
        *("-o", "--output"),
        type=Path,
        default=Path("thumbnails"),
        help="the folder for the copies, which is made if it does not exist (default: thumbnails)",
    )
    parser.add_argument(
        "--side", type=int, default=128, help="the longer side of a copy, in pixels (default: 128)"
    )
    parser.add_argument(
        "--at-once",
        type=at_once,
        default=4,
        help="pictures under way at the same time, each with a server of its own choice (default: 4)",
    )
    parser.add_argument(
        "--service",
        default="trader:///Thumbnails?prefer=spread",
        help="the service; without a host the traders are those in BIFROST_TRADER",
    )
    args = parser.parse_args()
    try:
        args.output.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        print(f"error: cannot make the folder `{args.output}`: {error}", file=sys.stderr)
        return 1
    work = Work(args)
    threads = [
        threading.Thread(target=work.run) for _ in range(min(args.at_once, len(args.pictures)))
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for server, count in sorted(work.made.items()):
        print(f"{count} by {server}", file=sys.stderr)
    return 0 if work.made.total() == len(args.pictures) else 1


if __name__ == "__main__":
    sys.exit(main())
