"""Runs lines on Spark, as one job with one task per line, so that a failure or loss affects one run only.

Executors get the package and the lines' files with the job. A line's result arrives when it ends.
"""

from __future__ import annotations

import importlib.util
import io
import os
import sys
import zipfile
from collections import deque
from collections.abc import Generator, Iterable, Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from hashlib import sha256
from pathlib import Path
from typing import Any, Final

import treadle
from treadle.errors import UserError, install_extra
from treadle.sweep import worker
from treadle.sweep.runs import Done, Line, died, has_content, write_at_once

THREADS_MAX: Final = 512
AHEAD: Final = 2
"""Lines submitted to Spark per core, so that no core waits for this process."""
LEFT_OUT: Final = ("__pycache__", "live")
"""Folders of the package that runs do not need."""


def check_spark() -> None:
    """Check that Spark is installed.

    Raises:
        UserError: it is not.
    """
    if importlib.util.find_spec("pyspark") is None:
        raise UserError(f"--on spark: needs pyspark; {install_extra('spark')}, or use --on local")


class Spark:
    """A Spark application for one sweep."""

    def __init__(self, master: str | None, settings: Mapping[str, str]) -> None:
        """Start Spark, or use the instance created by spark-submit.

        Args:
            master: the same as for spark-submit; None: spark-submit's or its default
            settings: of Spark, by name

        Raises:
            UserError: it does not start.
        """
        check_spark()
        from pyspark.sql import SparkSession

        builder: Any = SparkSession.builder.appName("treadle sweep").config("spark.ui.showConsoleProgress", "false")
        # PySpark has two names for it; a driver uses only the variable.
        os.environ["PYSPARK_PYTHON"] = settings.get(
            "spark.pyspark.python", os.environ.get("PYSPARK_PYTHON", sys.executable)
        )
        if master is not None:
            builder = builder.master(master)
        for name, value in settings.items():
            builder = builder.config(name, value)
        try:
            self._session = builder.getOrCreate()
        except Exception as error:  # PySpark's, or py4j's for any Java exception
            raise UserError(f"--on spark: Spark does not start: {_first(error)}; look at what it said above") from error
        self._context = self._session.sparkContext
        self._context.setLogLevel("ERROR")

    @property
    def cores(self) -> int:
        """Current number of parallel tasks."""
        return int(self._context.defaultParallelism)

    @property
    def master(self) -> str:
        """Its master."""
        return str(self._context.master)

    def run(self, lines: Sequence[Line], files: Path, taken: Iterable[str]) -> Generator[Done, None, None]:
        """Yield runs as they end.

        Args:
            lines: what to run
            files: the parent of the folders with their files
            taken: names of these folders

        Raises:
            UserError: Spark has ended, or executors have another environment.
        """
        from pyspark import cloudpickle

        cloudpickle.register_pickle_by_value(worker)  # workers may lack it
        package = Path(treadle.__file__).resolve().parent
        sent = files.parent / "sent"
        code = self._ship(sent, "code", archive_of_package(package))
        own_files = (file for name in taken for file in (files / name).rglob("*") if file.is_file())
        inputs = self._ship(sent, "files", _zipped(files, own_files))
        digest, wanted = worker.package_digest(package), worker.libraries()
        use_code, unpacked = worker.use_code, worker.unpacked

        def at_executor(text: str) -> tuple[bytes, bool]:
            from pyspark import SparkFiles

            use_code(digest, wanted, Path(SparkFiles.get(code)))
            from treadle.sweep.runs import Line, run_line  # only now is it the driver's

            return run_line(Line.parse(text), unpacked(Path(SparkFiles.get(inputs))))

        def send(line: Line) -> tuple[bytes, bool]:
            (found,) = self._context.parallelize([line.text()], 1).map(at_executor).collect()
            return bytes(found[0]), bool(found[1])

        left = deque(range(len(lines)))
        running: dict[Future[tuple[bytes, bool]], int] = {}
        pool = ThreadPoolExecutor(THREADS_MAX)
        try:
            while left or running:
                while left and len(running) < min(AHEAD * self.cores, THREADS_MAX):
                    number = left.popleft()
                    running[pool.submit(send, lines[number])] = number
                ended, _ = wait(running, return_when=FIRST_COMPLETED)
                for each in sorted(ended, key=running.__getitem__):
                    number = running.pop(each)
                    yield self._done(each, number, lines[number])
        finally:
            pool.shutdown(wait=False, cancel_futures=True)
            if running and not self._ended():
                self._context.cancelAllJobs()

    def stop(self) -> None:
        """Stop the application."""
        self._session.stop()

    def _done(self, sent: Future[tuple[bytes, bool]], number: int, line: Line) -> Done:
        try:
            return Done(number, *sent.result())
        except Exception as error:
            if self._ended():
                raise UserError(
                    f"Spark has ended: {_first(error)}; what ran is kept, run the same again to go on"
                ) from error
            if worker.OtherEnvironmentError.__name__ in str(error):
                raise UserError(
                    f"--on spark: {cause(error)}; --conf spark.pyspark.python=PATH names the Python of the executors"
                ) from error
            return died(number, line, f"Spark: {cause(error)}")

    def _ended(self) -> bool:
        context: Any = self._context
        return context._jsc is None or bool(context._jsc.sc().isStopped())

    def _ship(self, folder: Path, name: str, content: bytes) -> str:
        """Give an archive to all executors; return its name."""
        known = f"treadle-{name}-{sha256(content).hexdigest()[:16]}.zip"
        place = folder / known
        if not has_content(place, content, folder):
            write_at_once(place, content, folder)
        self._context.addFile(str(place))
        return known


def archive_of_package(package: Path) -> bytes:
    """Return a zip of the package in a folder, without the parts that runs do not need."""
    files = (
        file
        for file in package.rglob("*")
        if file.is_file() and not set(file.relative_to(package).parts) & set(LEFT_OUT) and file.suffix != ".jar"
    )
    return _zipped(package.parent, files)


def _zipped(base: Path, files: Iterable[Path]) -> bytes:
    """Return files as a zip, the same bytes for the same content."""
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as archive:
        for file in sorted(files):
            if file.suffix == ".part":
                continue
            entry = zipfile.ZipInfo(file.relative_to(base).as_posix())
            entry.external_attr = 0o644 << 16
            archive.writestr(entry, file.read_bytes(), zipfile.ZIP_DEFLATED)
    return buffer.getvalue()


def _first(error: BaseException) -> str:
    return str(error).strip().partition("\n")[0]


def cause(error: BaseException) -> str:
    """Return in a line the exception of a worker, or the first line of Spark's error."""
    lines = [line.strip() for line in str(error).splitlines()]
    raised = [line for line in lines if ": " in line and line.partition(":")[0].replace(".", "").isidentifier()]
    own_lines = [line for line in raised if not line.startswith(("Caused", "Driver", "org.apache", "java."))]
    return (own_lines or lines or [type(error).__name__])[0]
