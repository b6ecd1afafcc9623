"""Runs the tests of the package ``filelock`` against ``navlock.filelock``, which takes its place by one changed import.

    python python/tests/filelock_suite.py [UNPACKED_SDIST]

Without a folder, pip downloads the sdist into ``target/``. What fails is compared with ``filelock_expected.txt``: an
unexpected failure fails, and so does an unexpected success. Needs Python 3.11, and pytest with -asyncio, -mock,
-timeout and -xdist.

The tests find a package ``filelock`` whose public names are ours. What we do not have is theirs, so that the helpers of
the tests can be imported.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tarfile
import tempfile
import zipfile
from pathlib import Path

import pytest

VERSION = "4.3.1"
HERE = Path(__file__).parent
ROOT = HERE.parents[1]
EXPECTED = HERE / "filelock_expected.txt"
SECONDS_OF_ONE_TEST, SECONDS_OF_ALL = 5, 120

# Tests that are run for each kind of lock have its name in theirs. These kinds are not ours.
NOT_OURS = "not (Marker or Lease or lease or marker or Strict or strict or ReadWrite or read_write or read-write)"

SHIM = """
from importlib import import_module
import navlock.filelock as ours

__path__.append({theirs!r})
globals().update((name, getattr(ours, name)) for name in ours.__all__)
__all__ = list(ours.__all__)
_places = {places!r}

def __getattr__(name):
    if name in _places:
        found = import_module(_places[name], "filelock")
        return found if name == "asyncio" else getattr(found, name)
    raise AttributeError(f"module 'filelock' has no attribute {{name!r}}")
"""

# Where `filelock` has what we do not have, and what the tests, or their helpers, import.
PLACES = {
    "_core": "AcquireWait CloseErrorPolicy ContextErrorPolicy FileLockContext InFlight LeaseSettingsMismatch LockOptions"
    " ReleasePendingError SoftFileLockLifetimeWarning SoftFileLockProtocolError",
    "_native": "lock_descriptor unlock_descriptor",
    "_soft": "AsyncAcquireSoftReadWriteReturnProxy AsyncSoftReadWriteLock CompromiseReason LeaseClaim"
    " LeaseCompromise LeaseHeartbeat MarkerSoftFileLock OwnerMode OwnerRecord SoftFileLease SoftReadWriteLock StrictRelease"
    " StrictSoftFileClaim StrictSoftFileClaimState StrictSoftFileLock",
    "_sqlite": "AsyncAcquireReadWriteReturnProxy AsyncReadWriteLock ReadWriteLock",
    "asyncio": "AsyncSoftFileLease AsyncStrictSoftFileLock asyncio",
}


def main() -> int:
    sdist = Path(sys.argv[1]).resolve() if len(sys.argv) > 1 else downloaded()
    not_run, fails = expected()
    with tempfile.TemporaryDirectory(prefix="navlock-filelock-") as folder:
        shim = Path(folder, "shim", "filelock")
        shim.mkdir(parents=True)
        places = {name: f".{module}" for module, names in PLACES.items() for name in names.split()}
        theirs = str(sdist / "src" / "filelock")
        (shim / "__init__.py").write_text(SHIM.format(theirs=theirs, places=places))
        outcomes = Path(folder, "outcomes")
        paths = [str(shim.parent), str(HERE.parent), str(HERE)]
        environment = {
            **os.environ,
            "PYTHONPATH": os.pathsep.join(paths),
            "PYTHONDONTWRITEBYTECODE": "1",
            "NAVLOCK_SOCKET": os.path.join(folder, "sock"),
            "NAVLOCK_FILELOCK_OUTCOMES": str(outcomes),
        }
        for variable in ("NAVLOCK_BUCKET", "NAVLOCK_STORE", "PYTEST_ADDOPTS"):
            environment.pop(variable, None)
        options = ["-q", "-n", "4", "--tb=no", "-k", NOT_OURS]
        options += ["-p", "filelock_suite", "-p", "no:cacheprovider", "-p", "no:randomly"]
        options += [f"--timeout={SECONDS_OF_ONE_TEST}", f"--basetemp={folder}/tests"]
        options += [f"--ignore={each}" if each.endswith((".py", "/")) else f"--deselect={each}" for each in not_run]
        command = [sys.executable, "-m", "pytest", *options, "tests"]
        with open(Path(folder, "output"), "w+") as output:
            try:
                run = {"cwd": sdist, "env": environment, "stdout": output, "stderr": subprocess.STDOUT}
                subprocess.run(command, timeout=SECONDS_OF_ALL, **run)
            except subprocess.TimeoutExpired:
                print(f"the tests of filelock took more than {SECONDS_OF_ALL} seconds")
                return 1
            output.seek(0)
            said = output.read()
        lines = outcomes.read_text().splitlines() if outcomes.exists() else []
    # What has failed once has failed, whatever its teardown says.
    ended = {test: outcome for outcome, test in sorted((line.split(" ", 1) for line in lines), reverse=True)}
    passed = {test for test, outcome in ended.items() if outcome == "passed"}
    failed = {test for test, outcome in ended.items() if outcome == "failed"}
    # An entry without parameters is about all of a test.
    named = failed | {test.split("[")[0] for test in failed}
    as_expected = {test for test in failed if fails & {test, test.split("[")[0]}}
    wrong = [f"fails, and is not expected to: {test}" for test in sorted(failed - as_expected)]
    skipped = {test for test, outcome in ended.items() if outcome == "skipped"}
    wrong += [f"is expected to fail, and does not: {test}" for test in sorted(fails - named - skipped)]
    if not passed:
        wrong.append(f"no test has passed:\n{said[-3000:]}")
    print(*wrong, sep="\n", end="\n" if wrong else "")
    print(f"filelock {VERSION}: {len(passed)} passed, {len(as_expected)} failed as expected, {len(wrong)} otherwise")
    return 1 if wrong else 0


def expected() -> tuple[list[str], set[str]]:
    """What is not run, and what fails, of the list."""
    not_run: list[str] = []
    fails: set[str] = set()
    add = not_run.append
    for line in EXPECTED.read_text().splitlines():
        if line.startswith("["):
            add = not_run.append if line.startswith("[not run]") else fails.add
        elif line and not line.startswith("#"):
            add(line)
    return not_run, fails


def downloaded() -> Path:
    """The sdist, unpacked."""
    folder = ROOT / "target" / "filelock"
    unpacked = folder / f"filelock-{VERSION}"
    if not unpacked.exists():
        folder.mkdir(parents=True, exist_ok=True)
        # To download an sdist, pip prepares its metadata. For this one that needs a plugin which is on no index; this
        # one has its name and does nothing.
        with zipfile.ZipFile(folder / "python_sbom-0.1.2-py3-none-any.whl", "w") as wheel:
            info = "python_sbom-0.1.2.dist-info"
            wheel.writestr(
                "python_sbom_nothing.py",
                "from hatchling.builders.hooks.plugin.interface import BuildHookInterface\n"
                "from hatchling.plugin import hookimpl\n"
                "class Nothing(BuildHookInterface):\n    PLUGIN_NAME = 'python-sbom'\n"
                "@hookimpl\ndef hatch_register_build_hook():\n    return Nothing\n",
            )
            about = "Metadata-Version: 2.1\nName: python-sbom\nVersion: 0.1.2\nProvides-Extra: hatch\n"
            wheel.writestr(f"{info}/METADATA", about)
            wheel.writestr(f"{info}/WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n")
            wheel.writestr(f"{info}/entry_points.txt", "[hatch]\npython-sbom = python_sbom_nothing\n")
            wheel.writestr(f"{info}/RECORD", "")
        links = " ".join(filter(None, (os.environ.get("PIP_FIND_LINKS"), str(folder))))
        pip = [sys.executable, "-m", "pip", "-q", "download", "--no-deps", "--no-binary", "filelock", "-d", str(folder)]
        subprocess.run([*pip, f"filelock=={VERSION}"], env={**os.environ, "PIP_FIND_LINKS": links}, check=True)
        with tarfile.open(folder / f"filelock-{VERSION}.tar.gz") as archive:
            archive.extractall(folder, filter="data")
    return unpacked


# From here on this is a plugin of the pytest that runs the tests.


def pytest_collectreport(report: pytest.CollectReport) -> None:
    """Writes down which files cannot be imported."""
    if report.failed and not report.nodeid.endswith("]"):
        note(report)


def note(report: pytest.TestReport | pytest.CollectReport) -> None:
    with open(os.environ["NAVLOCK_FILELOCK_OUTCOMES"], "a") as outcomes:
        outcomes.write(f"{report.outcome} {report.nodeid}\n")


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    """Writes down what became of each test, in the one process that hears of all of them."""
    if "PYTEST_XDIST_WORKER" not in os.environ and (report.when == "call" or report.outcome != "passed"):
        note(report)


if __name__ == "__main__":
    sys.exit(main())
