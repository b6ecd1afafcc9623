from collections.abc import Callable, Sequence
from os import PathLike
from types import TracebackType
from typing import Any, Literal, final

_Reach = dict[str, Any]

@final
class Holds:
    def __new__(cls) -> Holds: ...
    def __len__(self) -> int: ...

@final
class Agent:
    def __new__(
        cls, reach: _Reach, bucket: str | None, folder: str | PathLike[str] | None
    ) -> Agent: ...
    @property
    def bucket(self) -> str: ...
    @property
    def client_id(self) -> str: ...
    def request(
        self, names: str | Sequence[str], bits: int, why: str | None, holds: Holds
    ) -> Any: ...
    def query(self, holds: Holds) -> Any: ...
    def inspect(self, name: str | None, holds: Holds) -> Any: ...
    def terminate(self) -> None: ...

@final
class Pending:
    def poll(self, wake: Callable[[], object]) -> Any: ...
    def abort(self) -> None: ...
    def time_out(self) -> None: ...

@final
class Lock:
    """A lock that is held, until it is released or lost."""

    @property
    def name(self) -> str:
        """The name of the lock."""
    @property
    def mode(self) -> Literal["exclusive", "shared"]:
        """How the lock is held."""
    @property
    def fencing_token(self) -> int:
        """A number that grows with each grant of this name.

        What the lock protects can refuse a smaller number than it has seen, and with it a holder that has lost the
        lock and does not know."""
    @property
    def lost(self) -> str | None:
        """How the lock was lost, in words; ``None`` while it is held, and if it was held to the end."""
    @property
    def changed(self) -> bool:
        """Whether anybody else may have held the name since this agent held it last.

        ``False`` proves that what the lock protects is as this agent has left it."""
    @property
    def released(self) -> bool:
        """Whether the lock was released through this object."""
    def release(self) -> None:
        """Releases the lock. To release it again does nothing.

        :raises LockLost: if the lock was lost before."""
    def __enter__(self) -> Lock: ...
    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None: ...
    def _watch(self, wake: Callable[[], object]) -> bool: ...

def serve_by(command: list[str]) -> None: ...
def serve() -> None: ...
def forked() -> None: ...
def end_waking() -> None: ...
