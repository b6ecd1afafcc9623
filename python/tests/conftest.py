"""All tests share a broker of their own, which the first of them starts."""

from __future__ import annotations

import os
import shutil
import tempfile
import uuid
from collections.abc import Iterator

import pytest

_folder = os.environ.get("NAVLOCK_PYTHON_TESTS")
if _folder is None:
    _folder = os.environ["NAVLOCK_PYTHON_TESTS"] = tempfile.mkdtemp(prefix="navlock-python-")
    os.environ["NAVLOCK_SOCKET"] = os.path.join(_folder, "sock")
for _variable in ("NAVLOCK_BIN", "NAVLOCK_BUCKET", "NAVLOCK_STORE", "NAVLOCK_ETCD", "NAVLOCK_POSTGRES"):
    os.environ.pop(_variable, None)

import navlock  # noqa: E402

pytest_plugins = ["pytester"]


def pytest_sessionfinish(session: pytest.Session) -> None:
    if not hasattr(session.config, "workerinput"):
        shutil.rmtree(str(_folder), ignore_errors=True)


@pytest.fixture
def bucket() -> str:
    """A bucket that no other test uses."""
    return f"test {uuid.uuid4()}"


@pytest.fixture(params=["in one process", "on one machine"])
def locks(request: pytest.FixtureRequest, bucket: str) -> Iterator[navlock.Locks]:
    """The locks of a new bucket, in both reaches."""
    make = navlock.in_process if request.param == "in one process" else navlock.local
    with make(bucket) as locks:
        yield locks


@pytest.fixture
def others(locks: navlock.Locks) -> navlock.Locks:
    """Another agent in the same bucket."""
    reach, bucket, folder = locks._recipe
    return type(locks)(reach, bucket, folder)
