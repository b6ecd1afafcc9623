"""The Web Locks API for Python: named locks, held by tasks, threads, processes, users or machines.

>>> import navlock
>>> locks = navlock.in_process()
>>> with locks.lock("db") as lock:
...     lock.name
'db'

``with`` and ``async with`` take the same request. How far a lock is seen is chosen once:

- :func:`in_process`: by this process
- :func:`local`: by all processes of this user on this machine
- :func:`system`: by the users of this machine that an administrator has put in one group
- :func:`etcd`, :func:`postgres`: by all machines that use this store

Read on in ``docs/python.md``.
"""

from __future__ import annotations

import os
import sys
from typing import Any

from . import _navlock
from ._errors import AbortError, DeadlockError, InvalidStateError, LockLost, LockTimeout, NavlockError
from ._errors import NotSupportedError, OperationError, QuotaExceededError, SecurityError, UnreachableError
from ._locks import Inspected, Inspection, LockInfo, LockRequest, Locks, Snapshot
from ._navlock import Lock

__all__ = [
    "AbortError", "DeadlockError", "Inspected", "Inspection", "InvalidStateError", "Lock", "LockInfo", "LockLost",
    "LockRequest", "LockTimeout", "Locks", "NavlockError", "NotSupportedError", "OperationError",
    "QuotaExceededError", "SecurityError", "Snapshot", "UnreachableError", "etcd", "in_process", "local", "postgres",
    "system",
]


def in_process(bucket: str = "default") -> Locks:
    """Locks between the tasks and threads of this process. Each call gives a new agent of the same bucket."""
    return Locks(_reach("process"), bucket, None)


def local(
    bucket: str | None = None,
    *,
    project: bool | str | os.PathLike[str] = False,
    socket: str | os.PathLike[str] | None = None,
) -> Locks:
    """Locks between all processes of this user on this machine, of whatever language. A broker keeps them, which the
    first request starts.

    :param bucket: who names the same bucket has the same locks. Without it, ``NAVLOCK_BUCKET`` names the bucket, or
        else it is ``"default"``, as for the command.
    :param project: the bucket is that of the project of this folder, or of the working folder if it is ``True``,
        unless ``NAVLOCK_BUCKET`` names another.
    :param socket: another broker.
    """
    at = () if socket is None else (os.fspath(socket),)
    if bucket is not None and project is not False:
        raise TypeError("either a bucket is named, or the bucket is the project's")
    bucket = bucket or os.environ.get("NAVLOCK_BUCKET") or ("default" if project is False else None)
    folder = "." if isinstance(project, bool) else os.fspath(project)
    return Locks(_reach("machine", *at), bucket, folder)


def system(bucket: str = "default") -> Locks:
    """Locks between several users of this machine, kept by a broker that an administrator has started."""
    return Locks(_reach("system"), bucket, None)


def etcd(
    *endpoints: str,
    bucket: str = "default",
    user: str | None = None,
    password: str | None = None,
    namespace: str | None = None,
    time_to_live: float | None = None,
) -> Locks:
    """Locks between all machines that use this etcd.

    :param endpoints: such as ``"https://10.0.0.1:2379"``.
    :param time_to_live: after how many seconds a machine that is not heard of has lost its locks.

    Nothing is connected before the first request, which fails with ``UnreachableError`` if etcd does not answer.
    """
    if not endpoints:
        raise ValueError("etcd() needs an endpoint")
    of_etcd = {"user": user, "password": password, "namespace": namespace}
    return Locks(_reach("etcd", *endpoints, time_to_live=time_to_live, **of_etcd), bucket, None)


def postgres(
    url: str,
    *,
    bucket: str = "default",
    listen_url: str | None = None,
    password: str | None = None,
    schema: str | None = None,
    time_to_live: float | None = None,
) -> Locks:
    """Locks between all machines that use this PostgreSQL, in which ``navlock postgres init`` was run.

    :param url: such as ``"postgres://app@db.example/app"``.
    :param listen_url: another way to the same server, without a pooler, by which it wakes who waits.
    :param time_to_live: after how many seconds a machine that is not heard of has lost its locks.

    Nothing is connected before the first request, which fails with ``UnreachableError`` if the server does not answer.
    """
    urls = (url,) if listen_url is None else (url, listen_url)
    reach = _reach("postgres", *urls, password=password, namespace=schema, time_to_live=time_to_live)
    return Locks(reach, bucket, None)


def _reach(kind: str, *at: str, time_to_live: float | None = None, **more: str | None) -> dict[str, Any]:
    """A reach as the extension takes it."""
    if time_to_live is not None and not 0 < time_to_live < 2**32:
        raise ValueError(f"the time to live is a number of seconds above 0, or None, not {time_to_live!r}")
    milliseconds = None if time_to_live is None else round(time_to_live * 1000)
    nothing = dict.fromkeys(("user", "password", "namespace"))
    return {**nothing, **more, "kind": kind, "at": list(at), "time_to_live": milliseconds}


# Where people find it, and where tracebacks say that it is.
for _public in (globals()[_name] for _name in __all__):
    if isinstance(_public, type) and _public is not Lock:
        _public.__module__ = "navlock"

# If no broker runs, this starts one: an interpreter that does nothing else, and loads nothing but the extension. The
# executable of a frozen program, or of one that has Python inside, would do that program's work instead.
_SERVES = (
    "import sys; from importlib.util import module_from_spec as module, spec_from_file_location as spec; "
    "found = spec('navlock._navlock', sys.argv[1]); it = module(found); found.loader.exec_module(it); it.serve()"
)
_is_python = not hasattr(sys, "frozen") and "python" in os.path.basename(sys.executable or "").lower()
if _is_python and _navlock.__file__:
    _navlock.serve_by([sys.executable, "-I", "-S", "-c", _SERVES, os.path.abspath(_navlock.__file__)])
