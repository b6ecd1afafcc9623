"""A plugin for pytest: what all workers of pytest-xdist use is made once, and ended once.

The plugin is there once navlock is installed:

    @pytest.fixture(scope="session")
    def database(navlock_once):
        return navlock_once("database", start_database, stop_database)
"""

from __future__ import annotations

import hashlib
import pickle
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any, TypeVar, cast

import pytest

import navlock

T = TypeVar("T")


class Once:
    """What the fixture ``navlock_once`` gives."""

    def __init__(self, run: str, folder: Path) -> None:
        self._locks = navlock.local(f"pytest {run}")
        self._folder = folder
        self._used: list[tuple[str, navlock.Lock, Callable[[Any], object] | None]] = []

    def __call__(self, name: str, make: Callable[[], T], end: Callable[[T], object] | None = None) -> T:
        """The value that ``make()`` has returned, which is called by one worker of this run of pytest.

        :param name: tells apart what is made once.
        :param make: returns something that can be pickled. If it fails, the next worker calls it again.
        :param end: is called with the value by the last worker that uses it, when its session ends. Without it,
            the value stays until the end of the run.
        """
        file = self._file(name)
        with self._locks.lock(f"make {name}", why=f"pytest makes {name!r}"):
            if file.exists():
                value = cast(T, pickle.loads(file.read_bytes()))
            else:
                value = make()
                try:
                    made = file.with_suffix(".new")
                    made.write_bytes(_pickled(name, value))
                    made.replace(file)
                except BaseException:
                    if end is not None:
                        end(value)  # No worker can use it.
                    raise
            used = self._locks.lock(f"use {name}", shared=True).acquire()
        self._used.append((name, used, cast("Callable[[Any], object] | None", end)))
        return value

    def close(self) -> None:
        """Ends what no other worker uses any more, the last first, also if an end fails."""
        with ExitStack() as ends:
            for used in self._used:
                ends.callback(self._end, *used)

    def _end(self, name: str, used: navlock.Lock, end: Callable[[Any], object] | None) -> None:
        with self._locks.lock(f"make {name}", why=f"pytest ends {name!r}"):
            used.release()
            with self._locks.lock(f"use {name}", if_available=True) as last:
                file = self._file(name)
                if last is not None and end is not None and file.exists():
                    value = pickle.loads(file.read_bytes())
                    file.unlink()
                    end(value)

    def _file(self, name: str) -> Path:
        return self._folder / f"navlock-{hashlib.sha256(name.encode(errors='surrogatepass')).hexdigest()[:16]}"


def _pickled(name: str, value: object) -> bytes:
    try:
        return pickle.dumps(value)
    except Exception as why:  # Whatever the value's own methods raise.
        raise TypeError(f"navlock_once({name!r}, ...): what was made cannot be pickled: {why}") from why


@pytest.fixture(scope="session")
def navlock_once(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Once]:
    """Makes something once for all workers of pytest-xdist: ``navlock_once(name, make, end)``."""
    folder = tmp_path_factory.getbasetemp()
    worker = cast("dict[str, str] | None", getattr(request.config, "workerinput", None))
    # The folders of workers are beside each other.
    once = Once(str(folder), folder) if worker is None else Once(worker["testrunuid"], folder.parent)
    yield once
    once.close()
