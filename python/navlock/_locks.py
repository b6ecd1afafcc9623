"""Agents and their requests."""

from __future__ import annotations

import math
import sys
from collections.abc import Awaitable, Callable, Coroutine, Generator, Iterable
from typing import TYPE_CHECKING, Any, Generic, Literal, NamedTuple, TypedDict, TypeVar, cast, overload

from ._errors import LockLost, LockTimeout, NotSupportedError
from ._holds import holds_here
from ._losing import cancel_if_lost
from ._navlock import Agent, Holds, Lock
from ._waiting import wait, wait_async

if TYPE_CHECKING:
    from typing_extensions import Self, Unpack

R = TypeVar("R")
T = TypeVar("T")

# The bits of `Agent.request`.
_SHARED, _IF_AVAILABLE, _STEAL, _HAS_TIMEOUT, _REENTRANT, _ALL, _ANY = (1 << n for n in range(7))


class SeveralOptions(TypedDict, total=False):
    """The options of a request for several locks, which are described at :meth:`Locks.lock`."""

    shared: bool
    timeout: float | None
    why: str | None
    cancel_if_lost: bool


class Options(SeveralOptions, total=False):
    """The options of a request for one lock, which are described at :meth:`Locks.lock`."""

    steal: bool
    reentrant: bool


class LockInfo(NamedTuple):
    """What the standard shows of a lock or of a request."""

    name: str
    mode: Literal["exclusive", "shared"]
    client_id: str


class Snapshot(NamedTuple):
    """What :meth:`Locks.query` gives."""

    held: list[LockInfo]
    pending: list[LockInfo]


class Inspected(NamedTuple):
    """A lock or a request with whatever is known of it; what its reach does not tell is ``None``."""

    name: str
    mode: Literal["exclusive", "shared"]
    client_id: str
    age: float | None
    """For how many seconds it has been held, pending or owned."""
    fencing_token: int | None
    pid: int | None
    command: str | None
    user: str | None
    host: str | None
    why: str | None


class Inspection(NamedTuple):
    """What :meth:`Locks.inspect` gives."""

    held: list[Inspected]
    pending: list[Inspected]
    owned: list[Inspected]
    """Names that nobody holds, and that one client can take again without asking."""


class Locks:
    """The locks of a bucket, for one agent.

    An agent is who asks: two objects are two agents, also in one process. Tasks and threads that share an object
    exclude each other nevertheless.
    """

    __slots__ = ("_agent", "_recipe", "__weakref__")

    def __init__(self, reach: dict[str, Any], bucket: str | None, folder: str | None) -> None:
        self._recipe = (reach, bucket, folder)
        self._agent = Agent(reach, bucket, folder)

    @property
    def bucket(self) -> str:
        """The name of the bucket: whoever uses the same one has the same locks."""
        return self._agent.bucket

    @property
    def client_id(self) -> str:
        """What :meth:`query` shows of this agent."""
        return self._agent.client_id

    @overload
    def lock(
        self, name: str, *, if_available: Literal[True], **options: Unpack[Options]
    ) -> LockRequest[Lock | None]: ...
    @overload
    def lock(
        self, name: str, *, if_available: Literal[False] = ..., **options: Unpack[Options]
    ) -> LockRequest[Lock]: ...
    @overload
    def lock(self, name: str, *, if_available: bool, **options: Unpack[Options]) -> LockRequest[Lock | None]: ...
    def lock(self, name: str, **options: Any) -> LockRequest[Any]:
        """A request for the lock of this name, made by ``with``, ``async with``, ``await`` or ``acquire()``.

        :param if_available: the lock is had at once, or else the request gives ``None``.
        :param shared: others may hold it shared at the same time.
        :param steal: take the lock from whoever holds it, who loses it. Only for recovery.
        :param timeout: for how many seconds to wait, at most.
        :param why: what the lock is for, for people who look.
        :param reentrant: the task or thread that holds the lock may take it again.
        :param cancel_if_lost: only with ``async with``: if the lock is lost, the body is cancelled and ``LockLost``
            raised. Otherwise the body goes on, and ``LockLost`` is raised at its end.
        """
        return LockRequest(self._agent, name, 0, **options)

    def lock_all(self, names: Iterable[str], **options: Unpack[SeveralOptions]) -> LockRequest[list[Lock]]:
        """A request for several locks, taken in the order of their names, so that two such requests never wait for
        each other. It gives them in this order."""
        return LockRequest(self._agent, _list_of(names), _ALL, **options)

    def lock_any(self, names: Iterable[str], **options: Unpack[SeveralOptions]) -> LockRequest[Lock]:
        """A request for one of several locks: the first that can be had."""
        several = _list_of(names)
        if not several:
            raise ValueError("lock_any() needs a name to wait for")
        return LockRequest(self._agent, several, _ANY, **options)

    @overload
    def request(
        self, name: str, callback: Callable[[Any], Coroutine[Any, Any, R]], **options: Any
    ) -> Coroutine[Any, Any, R]: ...
    @overload
    def request(self, name: str, callback: Callable[[Any], R], **options: Any) -> R: ...
    def request(self, name: str, callback: Callable[[Any], Any], **options: Any) -> Any:
        """Calls ``callback`` with the lock, which is held until the callback has ended, and gives what it gives.

        For a coroutine function this is a coroutine, to be awaited. The options are those of :meth:`lock`.
        """
        from inspect import isawaitable, iscoroutinefunction  # They take longer to import than all of this package.

        request: LockRequest[Any] = LockRequest(self._agent, name, 0, **options)
        if iscoroutinefunction(callback) or iscoroutinefunction(getattr(callback, "__call__", None)):
            return _run_async(request, callback)
        with request as lock:
            result = callback(lock)
            if isawaitable(result):
                raise TypeError("the callback gives something to be awaited, after the lock's end; give an `async def`")
            return result

    def query(self) -> Snapshot:
        """What is held in the bucket and what waits, as the standard shows it, at one moment."""
        return _snapshot(wait(self._agent.query(holds_here())))

    async def aquery(self) -> Snapshot:
        """As :meth:`query`, for tasks."""
        return _snapshot(await wait_async(self._agent.query(holds_here())))

    def inspect(self, name: str | None = None) -> Inspection:
        """As :meth:`query`, with whatever is known of those who have the locks and the requests, of one name or of
        all."""
        return _inspection(wait(self._agent.inspect(name, holds_here())))

    async def ainspect(self, name: str | None = None) -> Inspection:
        """As :meth:`inspect`, for tasks."""
        return _inspection(await wait_async(self._agent.inspect(name, holds_here())))

    def close(self) -> None:
        """Ends the agent: it loses what it holds, and its requests fail with ``InvalidStateError``."""
        self._agent.terminate()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_error: object) -> None:
        self.close()

    def __reduce__(self) -> tuple[Any, ...]:
        reach, _, _ = self._recipe
        if reach["kind"] == "process":
            raise TypeError("locks of one process mean nothing in another; use navlock.local()")
        return (type(self), (reach, self.bucket, None))

    def __repr__(self) -> str:
        return f"<navlock.Locks of bucket {self.bucket!r}, reach {self._recipe[0]['kind']!r}>"


class LockRequest(Generic[T]):
    """A request that is made when it is entered, awaited or acquired, each time anew, by whatever thread or task."""

    __slots__ = ("_agent", "_bits", "_cancels", "_entered", "_names", "_why", "timeout")

    def __init__(
        self,
        agent: Agent,
        names: str | list[str],
        bits: int,
        *,
        shared: bool = False,
        if_available: bool = False,
        steal: bool = False,
        timeout: float | None = None,
        why: str | None = None,
        reentrant: bool = False,
        cancel_if_lost: bool = False,
    ) -> None:
        if shared:
            bits |= _SHARED
        if if_available:
            bits |= _IF_AVAILABLE
        if steal:
            bits |= _STEAL
        if reentrant:
            bits |= _REENTRANT
        if timeout is not None:
            if if_available or steal:
                raise NotSupportedError("a request with if_available or steal never waits, so it takes no timeout")
            if not timeout >= 0 or math.isinf(timeout):
                raise ValueError(f"the timeout is a number of seconds from 0 on, or None, not {timeout!r}")
            bits |= _HAS_TIMEOUT if timeout > 0 else _IF_AVAILABLE
        self._agent = agent
        self._names = names
        self._bits = bits
        self.timeout: float | None = timeout
        self._why = why
        self._cancels = cancel_if_lost
        # What was entered and not left: in which frame, by whom, what it is, and what cancels the work under it.
        self._entered: list[tuple[int, Holds, Any, Any]] = []

    def acquire(self) -> T:
        """Waits for the lock. Whoever gets it releases it, by :meth:`Lock.release` or ``with``."""
        return self._acquire(holds_here())

    def __await__(self) -> Generator[Any, Any, T]:
        return self._acquire_async(holds_here()).__await__()

    def _acquire(self, here: Holds) -> T:
        if self._cancels:
            raise NotSupportedError("cancel_if_lost cancels a task: it needs `async with`")
        answer = self._agent.request(self._names, self._bits, self._why, here)
        if type(answer) is Lock:
            return cast(T, answer)
        return self._checked(wait(answer, self.timeout or None))

    async def _acquire_async(self, here: Holds) -> T:
        answer = self._agent.request(self._names, self._bits, self._why, here)
        if type(answer) is Lock:
            return cast(T, answer)
        return self._checked(await wait_async(answer, self.timeout or None))

    def _checked(self, granted: Any) -> T:
        if granted is None and self.timeout is not None:
            raise LockTimeout(f"{self._names!r}: the lock is held, and the request may not wait")
        return cast(T, granted)

    def __enter__(self) -> T:
        here = holds_here()
        granted = self._acquire(here)
        self._entered.append((_frame(), here, granted, None))
        return granted

    def __exit__(self, kind: Any, error: Any, traceback: Any) -> None:
        granted, _ = self._leave(_frame())
        _release(granted, kind, error, traceback)

    def __aenter__(self) -> Coroutine[Any, Any, T]:
        return self._enter_async(_frame())

    def __aexit__(self, *error: Any) -> Coroutine[Any, Any, None]:
        return self._exit_async(_frame(), *error)

    async def _enter_async(self, frame: int) -> T:
        here = holds_here()
        granted = await self._acquire_async(here)
        scope = cancel_if_lost(_locks_of(granted)) if self._cancels and granted is not None else None
        self._entered.append((frame, here, granted, scope))
        return granted

    async def _exit_async(self, frame: int, kind: Any, error: Any, traceback: Any) -> None:
        granted, scope = self._leave(frame)
        try:
            if scope is not None and scope.leave(kind, error, traceback):
                kind = error = traceback = None
        finally:
            _release(granted, kind, error, traceback)

    def _leave(self, frame: int) -> tuple[Any, Any]:
        """What was entered last in this frame, or else by whoever leaves. Both may be others than who has entered, as
        where a generator of a web framework is left by another thread, or a stack of contexts enters and leaves."""
        here = holds_here()
        entered = [entry for entry in self._entered if entry[0] == frame]
        entered = entered or [entry for entry in self._entered if entry[1] is here] or self._entered
        if entered is self._entered and len(entered) != 1:
            raise RuntimeError("several have entered this request, and none of them leaves it: release the locks")
        left = entered[-1]
        self._entered.remove(left)
        return left[2:]

    def __repr__(self) -> str:
        return f"<navlock.LockRequest for {self._names!r}>"


def _frame() -> int:
    """Which frame enters or leaves: it stays the same for as long as the body runs, on whatever thread."""
    return id(sys._getframe(2))  # pyright: ignore[reportPrivateUsage]


def _locks_of(granted: Any) -> list[Lock]:
    return cast("list[Lock]", granted) if isinstance(granted, list) else [granted]


def _release(granted: Any, kind: Any, error: Any, traceback: Any) -> None:
    """Releases all, and raises the first loss if the body has raised nothing."""
    if type(granted) is Lock:
        granted.__exit__(kind, error, traceback)
        return
    lost: LockLost | None = None
    for lock in granted or ():
        try:
            lock.__exit__(kind, error, traceback)
        except LockLost as why:
            lost = lost or why
    if lost is not None:
        raise lost


async def _run_async(request: LockRequest[Any], callback: Callable[[Any], Awaitable[R]]) -> R:
    async with request as lock:
        return await callback(lock)


def _list_of(names: Iterable[str]) -> list[str]:
    """The names as a list; one string is none."""
    if isinstance(names, str):
        raise TypeError("the names are a list of str, not one str")
    return list(names)


def _snapshot(answer: Any) -> Snapshot:
    held, pending = answer
    return Snapshot([LockInfo(**entry) for entry in held], [LockInfo(**entry) for entry in pending])


def _inspection(answer: Any) -> Inspection:
    return Inspection(*([Inspected(**entry) for entry in entries] for entries in answer))
