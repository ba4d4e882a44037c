"""OO7 over ZODB with ZEO: `oo7.py SIZE SEED FOLDER SAMPLES OP...`.

The server (runzeo) is a process of its own over a file in FOLDER; this is its client. Operations go from object to object as the
program in Theta does. Each run is a transaction. Prints a line for each operation and temperature: its name, `cold` or `hot`, the
result, and the milliseconds of each run. Cold is with a new connection of a new client, hot with one that has run it before.
"""

import os
import signal
import subprocess
import sys
import time

import transaction
import ZEO
import ZODB
from BTrees.IOBTree import IOBTree
from BTrees.OOBTree import OOBTree, OOTreeSet
from persistent import Persistent
from persistent.list import PersistentList

COLD_MAX = 3


class Random:
    """The additive feedback generator of the C library."""

    def __init__(self, seed):
        word = seed or 1
        numbers = [word]
        for _ in range(30):
            quotient = int(word / 127773)
            word = 16807 * (word - quotient * 127773) - 2836 * quotient
            if word < 0:
                word += 2147483647
            numbers.append(word)
        numbers += numbers[0:3]
        self.numbers = numbers
        for _ in range(310):
            self.draw()

    def draw(self):
        following = (self.numbers[-3] + self.numbers[-31]) & 0xFFFFFFFF
        self.numbers.append(following)
        return following >> 1

    def below(self, n):
        return self.draw() % n


class Sizes:
    def __init__(self, name):
        family = name.rstrip("0123456789")
        self.fan = int(name[len(family):] or 3)
        self.atomic, self.document, self.manual, self.composites, self.levels, self.modules = {
            "test": (20, 20, 1000, 5, 3, 1),
            "tiny": (20, 20, 1000, 50, 7, 1),
            "small": (20, 2000, 100000, 500, 7, 1),
            "medium": (200, 20000, 1000000, 500, 7, 1),
            "large": (200, 20000, 1000000, 500, 7, 10),
        }[family]
        self.total = self.modules * self.composites


class Object(Persistent):
    def __init__(self, **attributes):
        self.__dict__.update(attributes)


class Module(Object):
    pass


class Manual(Object):
    pass


class Complex(Object):
    pass


class Base(Object):
    pass


class Composite(Object):
    pass


class Document(Object):
    pass


class Atomic(Object):
    pass


class Connection(Object):
    pass


class Database(Object):
    pass


def text(line, size):
    return (line * (size // len(line) + 1))[: size - 1]


class Generator:
    def __init__(self, size, seed):
        self.sizes, self.random = Sizes(size), Random(seed)
        self.db = Database(
            modules=PersistentList(), bases=IOBTree(), composites=IOBTree(), atomics=IOBTree(),
            documents=IOBTree(), titles=OOBTree(), dates=OOTreeSet(), complexes=0)

    def kind_and_date(self, first=1000):
        kind = "type00%d" % self.random.below(10)
        return kind, first + self.random.below(1000)

    def generate(self):
        sizes, db = self.sizes, self.db
        self.wanted = []
        for m in range(sizes.modules):
            kind, date = self.kind_and_date()
            manual = Manual(title="Manual         %08d" % (m + 1),
                            text=text("I am the manual for module #%08d.\n" % (m + 1), sizes.manual))
            module = Module(id=m + 1, kind=kind, date=date, manual=manual)
            module.root = self.complex(m, None, 1)
            db.modules.append(module)
        for _ in range(sizes.total):
            self.composite()
        for base, private, shared in self.wanted:
            for c in private:
                base.private.append(db.composites[c])
                db.composites[c].private_users.append(base)
            for c in shared:
                base.shared.append(db.composites[c])
                db.composites[c].shared_users.append(base)
        return db

    def complex(self, module, above, level):
        kind, date = self.kind_and_date()
        self.db.complexes += 1
        this = Complex(id=self.db.complexes, kind=kind, date=date, above=above, below=PersistentList())
        for _ in range(3):
            deep = level < self.sizes.levels - 1
            this.below.append(self.complex(module, this, level + 1) if deep else self.base(module, this))
        return this

    def base(self, module, above):
        kind, date = self.kind_and_date()
        own, total = self.sizes.composites, self.sizes.total
        base = Base(id=len(self.wanted) + 1, kind=kind, date=date, above=above,
                    private=PersistentList(), shared=PersistentList())
        private = [module * own + self.random.below(own) + 1 for _ in range(3)]
        shared = [self.random.below(total) + 1 for _ in range(3)]
        self.wanted.append((base, private, shared))
        self.db.bases[base.id] = base
        return base

    def composite(self):
        db, sizes, n = self.db, self.sizes, self.sizes.atomic
        id = len(db.composites) + 1
        kind, date = self.kind_and_date(2000 if id % 10 == 0 else 0)
        document = Document(id=id, title="Composite Part %08d" % id,
                            text=text("I am the documentation for composite part #%08d.\n" % id, sizes.document))
        part = Composite(id=id, kind=kind, date=date, document=document, parts=PersistentList(),
                         private_users=PersistentList(), shared_users=PersistentList())
        document.part = part
        atomics = []
        for i in range(n):
            kind, date = self.kind_and_date()
            x, y = self.random.below(100000), self.random.below(100000)
            doc = self.random.below(sizes.total) + 1
            atomic = Atomic(id=(id - 1) * n + i + 1, kind=kind, date=date, x=x, y=y, document=doc, part=part,
                            to=PersistentList(), sources=PersistentList())
            atomics.append(atomic)
            db.atomics[atomic.id] = atomic
            db.dates.add((date, atomic.id))
        for i, source in enumerate(atomics):
            for k in range(sizes.fan):
                target = atomics[(i + 1) % n if k == 0 else self.random.below(n)]
                kind, length = "type00%d" % self.random.below(10), self.random.below(100000)
                connection = Connection(kind=kind, length=length, source=source, target=target)
                source.to.append(connection)
                target.sources.append(connection)
        part.parts.extend(atomics)
        part.root = atomics[0]
        db.composites[id] = part
        db.documents[id] = document
        db.titles[document.title] = document


def components(db):
    def walk(complex):
        for sub in complex.below:
            if isinstance(sub, Complex):
                yield from walk(sub)
            else:
                yield from sub.private
    return walk(db.modules[0].root)


def nothing(db, part):
    part.x


def swap(db, part):
    part.x, part.y = part.y, part.x


def toggle(db, part):
    db.dates.remove((part.date, part.id))
    part.date += 1 if part.date % 2 == 1 else -1
    db.dates.add((part.date, part.id))


def traverse(action):
    def visit(db, part, seen):
        if part.id in seen:
            return 0
        seen.add(part.id)
        action(db, part)
        return 1 + sum(visit(db, c.target, seen) for c in part.to)
    return lambda db, sizes: sum(visit(db, c.root, set()) for c in components(db))


def t6(db, sizes):
    n = 0
    for c in components(db):
        c.root.x
        n += 1
    return n


def t7(db, sizes):
    part = db.atomics[Random(1).below(sizes.total * sizes.atomic) + 1].part
    bases, above = {b.id: b for b in part.private_users}, set()
    for base in bases.values():
        complex = base.above
        while complex is not None and complex.id not in above:
            above.add(complex.id)
            complex = complex.above
    return len(bases) + len(above)


def q1(db, sizes):
    random = Random(1)
    for _ in range(10):
        db.atomics[random.below(sizes.total * sizes.atomic) + 1].x
    return 10


def since(date):
    def run(db, sizes):
        n = 0
        for _, id in db.dates.keys((date, 0)):
            db.atomics[id].x
            n += 1
        return n
    return run


def q4(db, sizes):
    random = Random(1)
    titles = ["Composite Part %08d" % (random.below(sizes.total) + 1) for _ in range(10)]
    return sum(len(db.titles[title].part.private_users) for title in titles)


def q5(db, sizes):
    return sum(any(c.date > b.date for c in b.private) for b in db.bases.values())


def q7(db, sizes):
    n = 0
    for part in db.atomics.values():
        part.x
        n += 1
    return n


def q8(db, sizes):
    return sum(db.documents[part.document].id == part.document for part in db.atomics.values())


OPS = {
    "T1": traverse(nothing), "T2b": traverse(swap), "T3b": traverse(toggle), "T6": t6, "T7": t7, "Q1": q1,
    "Q2": since(1990), "Q3": since(1900), "Q4": q4, "Q5": q5, "Q7": q7, "Q8": q8,
}


def timed(connection, sizes, op):
    start = time.perf_counter()
    result = OPS[op](connection.root()["oo7"], sizes)
    transaction.commit()
    ms = (time.perf_counter() - start) * 1e3
    return result, ms


def undo(connection, sizes, op):
    if op.startswith(("T2", "T3")):
        timed(connection, sizes, op)


def measure(size, seed, folder, samples, ops):
    # The classes are found by this name when objects are loaded.
    sys.setrecursionlimit(100000)
    sizes, address = Sizes(size), os.path.join(folder, "zeo")
    server = subprocess.Popen(
        [sys.executable, "-m", "ZEO.runzeo", "-a", address, "-f", os.path.join(folder, "oo7.fs")],
        stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        def connect():
            # Both caches have room for the whole database.
            storage = ZEO.client(address, wait_timeout=60, cache_size=4 << 30)
            db = ZODB.DB(storage, cache_size=10**8)
            return db, db.open()
        db, connection = connect()
        connection.root()["oo7"] = Generator(size, seed).generate()
        transaction.commit()
        db.close()
        for op in ops:
            if op not in OPS:
                continue
            times = {"cold": [], "hot": []}
            for _ in range(min(samples, COLD_MAX)):
                db, connection = connect()
                result, ms = timed(connection, sizes, op)
                times["cold"].append(ms)
                undo(connection, sizes, op)
                db.close()
            db, connection = connect()
            for sample in range(samples + 1):
                result, ms = timed(connection, sizes, op)
                if sample > 0:
                    times["hot"].append(ms)
                undo(connection, sizes, op)
            db.close()
            for temperature, each in times.items():
                print(op, temperature, result, *("%.4f" % ms for ms in each), flush=True)
    finally:
        server.terminate()
        server.wait()


if __name__ == "__main__":
    # Whoever ends this ends the server too.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
    if len(sys.argv) < 5:
        sys.exit("usage: oo7.py SIZE SEED FOLDER SAMPLES OP...")
    measure(sys.argv[1], int(sys.argv[2]), sys.argv[3], int(sys.argv[4]), sys.argv[5:])
