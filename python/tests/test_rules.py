"""The rules of the standard, by threads, in one process and through the broker."""

from __future__ import annotations

import threading
import time
import uuid
from concurrent.futures import ThreadPoolExecutor

import pytest

import navlock
from navlock import Locks


def until(condition, seconds: float = 10.0) -> None:
    """Waits for what other threads do."""
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, "it has not happened"
        time.sleep(0.001)


def waiting(locks: Locks) -> list[str]:
    return [request.name for request in locks.query().pending]


def test_a_lock_is_held_inside_with_and_free_afterwards(locks: Locks, others: Locks) -> None:
    with locks.lock("db") as lock:
        assert (lock.name, lock.mode, lock.lost, lock.released) == ("db", "exclusive", None, False)
        with others.lock("db", if_available=True) as other:
            assert other is None
        assert [info.name for info in others.query().held] == ["db"]
    assert lock.released and lock.lost is None
    with others.lock("db", if_available=True) as other:
        assert other is not None and other.fencing_token > lock.fencing_token


def test_readers_share_and_a_writer_waits_for_all_of_them(locks: Locks, others: Locks) -> None:
    first, second = locks.lock("db", shared=True), others.lock("db", shared=True)
    with ThreadPoolExecutor() as threads:
        with first as one, second as two:
            assert one.mode == two.mode == "shared"
            writer = threads.submit(others.lock("db").acquire)
            until(lambda: waiting(locks) == ["db"])
            # The order is that of the requests, so this reader is behind the writer.
            assert locks.lock("db", shared=True, if_available=True).acquire() is None
        writer.result(10).release()


def test_requests_are_granted_in_their_order(locks: Locks) -> None:
    order: list[int] = []

    def work(number: int) -> None:
        with locks.lock("db"):
            order.append(number)

    with ThreadPoolExecutor(20) as threads:
        with locks.lock("db"):
            for number in range(20):
                threads.submit(work, number)
                until(lambda: len(waiting(locks)) == number + 1)
    assert order == list(range(20))


def test_threads_and_agents_exclude_each_other(locks: Locks, others: Locks) -> None:
    inside = entered = 0

    def work(locks: Locks) -> None:
        nonlocal inside, entered
        for _ in range(100):
            with locks.lock("counter"):
                inside += 1
                assert inside == 1
                entered += 1
                inside -= 1

    with ThreadPoolExecutor(8) as threads:
        for done in [threads.submit(work, who) for who in (locks, others) * 4]:
            done.result(60)
    assert entered == 800


def test_a_thief_takes_the_lock_and_the_holder_is_told(locks: Locks, others: Locks) -> None:
    with pytest.raises(navlock.LockLost, match="stolen"):
        with locks.lock("db") as lock:
            with others.lock("db", steal=True):
                until(lambda: lock.lost is not None)
    assert lock.lost is not None and "stolen" in lock.lost
    with pytest.raises(KeyError):  # What the body raises goes before the loss.
        with locks.lock("db"):
            others.lock("db", steal=True).acquire().release()
            raise KeyError("body")


def test_a_request_that_may_not_wait_for_long_leaves_the_queue(locks: Locks, others: Locks) -> None:
    with locks.lock("db"):
        for timeout in (0, 0.02):
            began = time.monotonic()
            with pytest.raises(TimeoutError) as late:
                others.lock("db", timeout=timeout).acquire()
            assert isinstance(late.value, navlock.LockTimeout) and "db" in str(late.value)
            assert time.monotonic() - began >= timeout
        assert waiting(locks) == []
    others.lock("db", timeout=0).acquire().release()


def test_several_names_are_taken_together_or_one_of_them(locks: Locks, others: Locks) -> None:
    with locks.lock_all(["b", "a", "b"]) as both:
        assert [lock.name for lock in both] == ["a", "b"]
        assert others.lock("b", if_available=True).acquire() is None
        with others.lock_any(["a", "b", "c"]) as any_of:
            assert any_of.name == "c"
        with pytest.raises(navlock.LockTimeout):
            others.lock_any(["a", "b"], timeout=0).acquire()
    assert locks.query() == navlock.Snapshot([], [])


def test_request_holds_the_lock_until_the_callback_has_ended(locks: Locks, others: Locks) -> None:
    assert locks.request("db", lambda lock: (lock.name, others.request("db", bool, if_available=True))) == ("db", False)
    assert locks.query().held == []


def test_a_lock_that_a_thread_holds_is_not_waited_for_by_it(locks: Locks) -> None:
    with locks.lock("db") as held:
        with pytest.raises(navlock.DeadlockError, match="already"):
            locks.lock("db").acquire()
        with pytest.raises(navlock.DeadlockError):
            locks.lock_all(["a", "db"]).acquire()
        with locks.lock("db", reentrant=True) as again:
            again.release()
            assert [info.name for info in locks.query().held] == ["db"]
        with ThreadPoolExecutor() as threads:
            other = threads.submit(locks.lock("db", reentrant=True, timeout=30).acquire)
            until(lambda: waiting(locks) == ["db"])  # Another thread waits, as it should.
            assert not other.done()
            held.release()
            other.result(10).release()


def test_a_closed_agent_loses_all_and_takes_nothing(locks: Locks, others: Locks) -> None:
    lock = locks.lock("db").acquire()
    with ThreadPoolExecutor() as threads:
        waits = threads.submit(locks.lock("db").acquire)
        until(lambda: waiting(others) == ["db"])
        locks.close()
        with pytest.raises(navlock.InvalidStateError):
            waits.result(10)
    with pytest.raises(navlock.LockLost):
        lock.release()
    with pytest.raises(navlock.InvalidStateError):
        locks.lock("other").acquire()
    others.lock("db", timeout=10).acquire().release()


def test_a_shared_lock_does_not_become_exclusive(locks: Locks) -> None:
    with locks.lock("db", shared=True):
        with pytest.raises(navlock.DeadlockError, match="cannot become exclusive"):
            locks.lock("db", reentrant=True).acquire()


def test_a_reader_may_come_in_again_before_a_writer_that_waits(locks: Locks, others: Locks) -> None:
    with ThreadPoolExecutor() as threads:
        with locks.lock("db", shared=True):
            writer = threads.submit(others.lock("db").acquire)
            until(lambda: waiting(locks) == ["db"])
            locks.lock("db", shared=True, reentrant=True).acquire().release()
        writer.result(10).release()


def test_threads_that_wait_for_each_other_are_told(locks: Locks) -> None:
    barrier = threading.Barrier(2)

    def work(first: str, second: str) -> bool:
        with locks.lock(first):
            barrier.wait(10)
            try:
                locks.lock(second).acquire().release()
            except navlock.DeadlockError:
                return False
            return True

    with ThreadPoolExecutor() as threads:
        done = [threads.submit(work, *names) for names in (("a", "b"), ("b", "a"))]
        assert sorted(ended.result(30) for ended in done) == [False, True]


def test_what_a_lock_is_for_and_who_has_it_is_shown(locks: Locks, others: Locks) -> None:
    with locks.lock("db", why="nightly backup"):
        (held,) = others.inspect("db").held
        assert (held.name, held.why, held.client_id) == ("db", "nightly backup", locks.client_id)
        assert others.inspect("other").held == []


def test_a_lock_knows_whether_others_have_held_its_name(locks: Locks, others: Locks) -> None:
    changed = []
    for _ in range(3):
        with locks.lock("cache") as lock:
            changed.append(lock.changed)
    with others.lock("cache"):
        pass
    with locks.lock("cache") as lock:
        changed.append(lock.changed)
    assert changed == [True, False, False, True]


def test_names_are_strings_of_any_kind(locks: Locks, others: Locks) -> None:
    for name in ["", "\0", "ü", "🔒", "half \ud83d", "\udd12\ud83d", "x" * 10_000]:
        with locks.lock(name) as lock:
            assert lock.name == name
            assert others.lock(name, if_available=True).acquire() is None
    with locks.lock("\ud83d\udd12") as lock:
        assert lock.name == "🔒"


@pytest.mark.parametrize(
    "options",
    [{"steal": True, "if_available": True}, {"steal": True, "shared": True}, {"steal": True, "timeout": 1}],
)
def test_options_that_exclude_each_other_are_refused(locks: Locks, options: dict[str, object]) -> None:
    with pytest.raises(navlock.NotSupportedError):
        locks.lock("db", **options).acquire()  # type: ignore[call-overload]


def test_a_reserved_name_is_refused(locks: Locks) -> None:
    with pytest.raises(navlock.NotSupportedError, match="-"):
        locks.lock("-db").acquire()


def test_a_writer_that_gives_up_admits_the_readers_behind_it(locks: Locks, others: Locks) -> None:
    """Rules 1 and 4: what leaves the queue has it processed, and consecutive readers are granted together."""
    with ThreadPoolExecutor() as threads:
        with locks.lock("db", shared=True):
            gives_up = type(locks)(*locks._recipe)
            writer = threads.submit(gives_up.lock("db").acquire)
            until(lambda: waiting(locks) == ["db"])
            readers = [threads.submit(others.lock("db", shared=True).acquire) for _ in range(3)]
            until(lambda: len(waiting(locks)) == 4)
            gives_up.close()
            with pytest.raises(navlock.InvalidStateError):
                writer.result(10)
            for reader in [reader.result(10) for reader in readers]:
                reader.release()


def test_of_two_thieves_the_last_one_has_the_lock(locks: Locks, others: Locks) -> None:
    """Rules 14 and 15."""
    with ThreadPoolExecutor() as threads:
        victim = locks.lock("db").acquire()
        waits = threads.submit(others.lock("db").acquire)
        until(lambda: waiting(locks) == ["db"])
        first = others.lock("db", steal=True).acquire()
        second = locks.lock("db", steal=True).acquire()
        for lost in (victim, first):
            with pytest.raises(navlock.LockLost, match="stolen"):
                lost.release()
        assert waiting(locks) == ["db"], "the waiting request has kept its place"
        second.release()
        waits.result(10).release()


def test_a_callback_that_raises_releases_the_lock(locks: Locks, others: Locks) -> None:
    """Rule 10."""

    def fails(_lock: navlock.Lock) -> None:
        raise KeyError("work")

    with pytest.raises(KeyError):
        locks.request("db", fails)
    others.lock("db", timeout=0).acquire().release()


def test_buckets_do_not_see_each_other(locks: Locks, bucket: str) -> None:
    """Rule 33."""
    reach, _, folder = locks._recipe
    elsewhere = type(locks)(reach, f"{bucket} elsewhere", folder)
    with locks.lock("db"), elsewhere.lock("db", timeout=0):
        assert len(elsewhere.query().held) == len(locks.query().held) == 1


def test_a_snapshot_shows_requests_in_their_order_and_each_agent_by_its_id(locks: Locks, others: Locks) -> None:
    """Rules 29 to 32."""
    with ThreadPoolExecutor() as threads:
        with locks.lock("db"):
            asked = []
            for who, shared in [(locks, True), (others, False), (locks, False)]:
                asked.append(threads.submit(who.lock("db", shared=shared).acquire))
                until(lambda: len(waiting(locks)) == len(asked))
            pending = others.query().pending
            assert [info.mode for info in pending] == ["shared", "exclusive", "exclusive"]
            ids = [info.client_id for info in pending]
            assert ids == [locks.client_id, others.client_id, locks.client_id]
            assert all(uuid.UUID(client_id).version == 4 for client_id in ids)
        for request in asked:
            request.result(10).release()


def test_of_names_that_nobody_has_nothing_is_left(locks: Locks) -> None:
    """Rule 6."""
    for number in range(2000):
        with locks.lock(f"name {number}"):
            pass
    assert locks.query() == navlock.Snapshot([], [])
