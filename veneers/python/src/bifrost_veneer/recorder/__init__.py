"""The recorder of a client: calls become a batch, the reply becomes knowledge about stubs.

It does no input or output, and knows no clock, threads or sockets: bytes go out of it and come into
it. The same scripts give the same bytes and the same knowledge in every client language
(``vectors/recorder`` in the repository).

| file | has |
| --- | --- |
| ``wire``, ``decode``, ``commands`` | words, replies, commands as bytes |
| ``numbers`` | the constants of stubs, the numbers of the server |
| ``state`` | the slots of stubs, the handles, the tables of a batch |
| ``account`` | the failures that the program was not told of |
| ``calls``, ``structures`` | what is recorded |
| ``crossing`` | the way of a batch to the server, and its answer |
| ``greeting`` | the begin of a session |
| ``errors`` | failures as values |
"""

from .calls import Due, ItemList, WordList
from .crossing import Recorder
from .greeting import Greeting
from .numbers import Heading, Interface, Numbers, Stubs
from .state import FAILED, UNDER_WAY, Bounds, Counters, Settings, Slot

__all__ = [
    "FAILED",
    "UNDER_WAY",
    "Bounds",
    "Counters",
    "Due",
    "Greeting",
    "Heading",
    "Interface",
    "ItemList",
    "Numbers",
    "Recorder",
    "Settings",
    "Slot",
    "Stubs",
    "WordList",
]
