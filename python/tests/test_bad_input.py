"""What is wrong gets a clear exception, and nothing is held afterwards."""

from __future__ import annotations

import gc
import subprocess
import sys
import warnings

import pytest

import navlock
from navlock import Locks


@pytest.mark.parametrize("name", [7, None, b"db", ["db"]])
def test_names_that_are_no_strings(locks: Locks, name: object) -> None:
    with pytest.raises(TypeError, match="the name of a lock is a str, not"):
        locks.lock(name).acquire()  # type: ignore[call-overload]
    with pytest.raises(TypeError):
        locks.lock_all(["a", name]).acquire()  # type: ignore[list-item]
    assert locks.query().held == []


def test_one_name_where_several_are_meant(locks: Locks) -> None:
    for ask in (locks.lock_all, locks.lock_any):
        with pytest.raises(TypeError, match="list of str"):
            ask("db")


@pytest.mark.parametrize("timeout", [-1, float("nan"), float("inf"), "1"])
def test_timeouts_that_are_none(locks: Locks, timeout: object) -> None:
    with pytest.raises((ValueError, TypeError)):
        locks.lock("db", timeout=timeout)  # type: ignore[call-overload]


def test_options_that_do_not_exist(locks: Locks) -> None:
    with pytest.raises(TypeError, match="unexpected keyword"):
        locks.lock("db", mode="shared")  # type: ignore[call-overload]


def test_a_lock_that_nobody_has_any_more_is_released_and_python_warns(locks: Locks) -> None:
    lock = locks.lock("forgotten").acquire()
    with pytest.warns(ResourceWarning, match="forgotten"):
        del lock
        gc.collect()
    locks.lock("forgotten", timeout=10).acquire().release()


def test_releasing_twice_does_nothing(locks: Locks) -> None:
    with locks.lock("db") as lock:
        lock.release()
        lock.release()
        with locks.lock("db", if_available=True) as again:
            assert again is not None


def test_a_socket_where_no_broker_can_be(tmp_path: object) -> None:
    with pytest.raises(navlock.UnreachableError, match="NAVLOCK_SOCKET"):
        navlock.local("b", socket=f"{tmp_path}/none/sock").lock("db").acquire()


def test_stores_that_do_not_answer() -> None:
    for locks in (navlock.etcd("http://127.0.0.1:1"), navlock.postgres("postgres://nobody@127.0.0.1:1/none")):
        with pytest.raises(navlock.UnreachableError, match="127.0.0.1"):
            locks.lock("db").acquire()


@pytest.mark.parametrize("seconds", [-1, 0, float("nan"), float("inf")])
def test_times_to_live_that_are_none(seconds: float) -> None:
    for make in (navlock.etcd, navlock.postgres):
        with pytest.raises(ValueError, match="time to live"):
            make("http://127.0.0.1:1", time_to_live=seconds)


def test_a_bucket_and_a_project() -> None:
    with pytest.raises(TypeError, match="bucket"):
        navlock.local("b", project=True)
    assert navlock.local(project=True).bucket != "default"


def test_a_subinterpreter_is_refused_or_right() -> None:
    """One with a global lock of its own is refused, by PyO3; another one shares the locks."""
    code = (
        "try: import _interpreters as s\n"
        "except ImportError: import _xxsubinterpreters as s\n"
        "import navlock\n"
        "held = navlock.in_process().lock('db').acquire()\n"
        "run = 'import navlock; print(navlock.in_process().lock(\"db\", if_available=True).acquire())'\n"
        "failed = s.run_string(s.create(), run)\n"
        "if failed: print('None' if 'ImportError' in str(failed) else failed)\n"
        "held.release()\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60)
    assert (done.returncode, done.stdout.strip()) == (0, "None"), done.stderr


def test_what_is_public_has_its_name_and_a_docstring() -> None:
    for name in navlock.__all__:
        public = getattr(navlock, name)
        assert public.__doc__, name
        assert public.__module__ == "navlock", name
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert repr(navlock.in_process().lock("db")) == "<navlock.LockRequest for 'db'>"
