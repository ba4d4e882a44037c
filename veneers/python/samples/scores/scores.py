"""A live view, with asyncio: one task watches while another adds points;
``examples/scores/scores.theta``.
"""

import asyncio
import os

from bifrost_stubs import Scores, aconnect


async def watch(ready: asyncio.Event) -> None:
    async with aconnect(os.environ["BIFROST_URL"]) as s:
        scores = s.lookup("scores", Scores)
        view = s.live(lambda: s.collect(scores.leaders(0), lambda p: (p.name(), p.points())))
        async for rows in view:
            print(", ".join(f"{name} {points}" for name, points in rows))
            ready.set()
            if sum(points for _, points in rows) >= 10:
                return


async def score(ready: asyncio.Event) -> None:
    async with aconnect(os.environ["BIFROST_URL"]) as s:
        scores = s.lookup("scores", Scores)
        for name, points in (("bob", 2), ("zoe", 5)):
            await ready.wait()
            ready.clear()
            total = scores.score(name, points)
            await s.commit()
            assert await total == points


async def main() -> None:
    ready = asyncio.Event()
    async with asyncio.TaskGroup() as group:
        group.create_task(watch(ready))
        group.create_task(score(ready))


if __name__ == "__main__":
    asyncio.run(main())
