"""The begin of a session: hello, welcome, and the server's interface if it is another one.

hello sent --welcome, the same digest--> the recorder
hello sent --welcome, another digest--> describe sent --interface--> the recorder
any --another reply, an error of the server--> nothing
"""

from __future__ import annotations

from typing import Protocol

from .. import _tables as t
from .. import native
from .crossing import Recorder, Replies
from .decode import Bad, ErrorReply, InterfaceReply, Welcome
from .errors import ByBadReply, ByServer, ByWrongReply, Closed, GreetError
from .numbers import BadInterface, Interface, Numbers, Stubs
from .state import Bounds, Settings
from .wire import new_words, put_hello, to_bytes


class Known(Protocol):
    """The interfaces that a client knows beside its own."""

    def find(self, digest: bytes) -> Stubs | None:
        """Returns the stubs of a digest, if its interface is known."""
        ...

    def make(self, text: bytes, digest: bytes) -> Stubs:
        """Makes the stubs of an interface that the server has described. Raises ValueError."""
        ...


class Greeting:
    """A session that is being opened. It becomes a :class:`Recorder`.

    Without ``stubs`` those of ``known`` are taken: the interface is asked for if it is not known.
    """

    def __init__(
        self,
        stubs: Stubs | None,
        token: str,
        client: str,
        settings: Settings,
        known: Known | None = None,
    ) -> None:
        self._stubs = stubs
        self._known = known
        self._settings = settings
        self._bounds = Bounds()
        self._digest = b""
        self._described = False
        #: The reply to hello, and the bytes that came since.
        self._welcomed = b""
        self._came = b""
        self._replies = Replies(settings.reply_bytes_max)
        words = new_words()
        put_hello(
            words, bytes(32) if stubs is None else stubs.digest, token, client, settings.trace
        )
        self._questions = to_bytes(words)
        #: The version of the server and its name, once it has answered.
        self.server = ""
        self.session = 0

    def take_bytes(self) -> bytes:
        """Takes the bytes to be sent now."""
        data, self._questions = self._questions, b""
        return data

    def handle_bytes(self, data: bytes) -> Recorder | None:
        """Takes bytes of the server, cut anywhere. Returns the recorder when the server has
        answered; None if more bytes are to be sent or read. Raises :class:`GreetError`.
        """
        self._came += data
        try:
            reply = self._replies.next(data)
        except Bad as error:
            raise GreetError(ByBadReply(error)) from None
        if reply is None:
            return None
        if isinstance(reply, ErrorReply):
            raise GreetError(ByServer(reply.number, reply.position, reply.text))
        if isinstance(reply, Welcome) and not self._described:
            return self._welcome(reply)
        if isinstance(reply, InterfaceReply) and self._described:
            self._expect_end()
            return self._interface(reply.json)
        what = "an interface was expected" if self._described else "a welcome was expected"
        raise GreetError(ByWrongReply(what))

    def _expect_end(self) -> None:
        # Each of these questions is asked alone, so nothing can follow its answer.
        if not self._replies.is_empty:
            raise GreetError(ByWrongReply("more than one reply"))

    def _welcome(self, welcome: Welcome) -> Recorder | None:
        self._expect_end()
        self._welcomed, self._came = self._came, b""
        if welcome.version != t.VERSION:
            raise GreetError(
                f"the server has version {welcome.version} of the wire form, this client version {t.VERSION}"
            )
        self.server, self.session = welcome.server, welcome.session
        for number, value in welcome.limits:
            self._bounds.set(number, value)
        if self._stubs is not None and welcome.digest == self._stubs.digest:
            return self._recorder(Numbers(self._stubs))
        if self._stubs is None and self._known is not None:
            stubs = self._known.find(welcome.digest)
            if stubs is not None:
                return self._recorder(Numbers(stubs))
        self._digest = welcome.digest
        words = new_words()
        words.append(t.OP_DESCRIBE)
        self._questions += to_bytes(words)
        self._described = True
        return None

    def _interface(self, text: bytes) -> Recorder:
        try:
            if self._stubs is None and self._known is not None:
                return self._recorder(Numbers(self._known.make(text, self._digest)))
            if self._stubs is None:
                raise GreetError("the session has no stubs")
            return self._recorder(Numbers(self._stubs, Interface(text)))
        except (BadInterface, OSError) as error:
            raise GreetError(str(error)) from error

    def _recorder(self, numbers: Numbers) -> Recorder:
        if self._settings.native:
            try:
                return native.make_recorder(numbers, self._settings, self._welcomed, self._came)
            except ValueError as error:
                raise GreetError(str(error)) from error
        return Recorder(numbers, self._bounds, self._settings, self._replies)

    def handle_last_bytes(self, data: bytes) -> Closed | bool:
        """Looks for the reason that a server gives before it closes a session, in bytes that can
        still be read when none can be written.
        """
        return self._replies.last_words(data)
