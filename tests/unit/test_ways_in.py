"""Every call by which data or code from outside enters the product is in a reviewed list, with reason and bound.

The list is tests/data/ways-in.yaml: `file: {function: {calls: [...], why: ..., bound: ...}}`. A call that is new, or
moved to another function, fails here until its reader writes why it is safe and what bounds it.
"""

from __future__ import annotations

import ast
import fnmatch
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest
import yaml

ROOT: Final = Path(__file__).parents[2]
LIST: Final = ROOT / "tests/data/ways-in.yaml"
PYTHON: Final = ROOT / "python/treadle"
JAVA: Final = ROOT / "java-shim/shim/src/main/java/io/treadle/shim"

# Functions and classes by their full names, as patterns of a shell.
_FUNCTIONS: Final = (
    *("subprocess.run", "subprocess.Popen", "subprocess.*call", "subprocess.check_*", "subprocess.get*"),
    *("os.exec*", "os.spawn*", "os.posix_spawn*", "os.system", "os.popen", "os.fork*", "os.kill*", "os.pidfd_open"),
    *("signal.pidfd_send_signal", "multiprocessing.get_context", "multiprocessing.Process", "multiprocessing.Pool"),
    *("concurrent.futures.ProcessPoolExecutor", "pyspark.sql.SparkSession", "pyspark.cloudpickle"),
    *("shutil.which", "shutil.copy*", "shutil.move", "shutil.rmtree", "shutil.unpack_archive", "os.chown", "os.chmod"),
    *("psutil.Process", "psutil.process_iter", "psutil.pid*"),
    *("exec", "eval", "compile", "__import__", "runpy.*", "ctypes.*", "sys.path.*", "numba.*jit", "numba.config.*"),
    *("importlib.import_module", "importlib.reload", "importlib.util.*_from_*", "importlib.metadata.entry_points"),
    *("pickle.load*", "pickle.Unpickler", "marshal.load*", "shelve.open", "cloudpickle.load*"),
    *("open", "io.open", "os.open", "os.fdopen", "os.read*", "sys.stdin", "mmap.mmap", "os.scandir", "os.walk"),
    *(
        "numpy.load*",
        "numpy.genfromtxt",
        "numpy.fromfile",
        "numpy.memmap",
        "sqlite3.connect",
        "sqlalchemy.create_engine",
    ),
    *("zlib.decompress*", "gzip.*open", "gzip.GzipFile", "gzip.decompress", "bz2.*", "lzma.*open", "lzma.LZMAFile"),
    *("lzma.*decompress*", "lzma.LZMADecompressor", "zstandard.*Decompressor"),
    *("tarfile.open", "tarfile.TarFile", "zipfile.ZipFile"),
    *("yaml.*load*", "yaml.compose*", "yaml.parse", "yaml.scan", "json.load*", "tomllib.load*", "csv.*reader"),
    *("xml.*.fromstring", "xml.*.*parse", "xml.*.parseString", "xml.*.ParserCreate", "xml.*.make_parser"),
    *("socket.socket*", "socket.create_*", "socket.fromfd", "asyncio.start_*server", "asyncio.open_*connection"),
    *("asyncio.create_subprocess*", "requests.get", "requests.post", "requests.put", "requests.request"),
    *("requests.Session", "urllib.request.*", "http.client.*", "http.server.*", "uvicorn.Server", "uvicorn.run"),
    *("py4j.java_gateway.Callback*", "treadle.files.read_regular", "treadle.files.own_folder"),
)
_CALLS: Final = re.compile("|".join(map(fnmatch.translate, _FUNCTIONS)))
# Methods by their names alone: their objects have types that only a run would show.
_METHODS: Final = frozenset(
    {
        *("open", "read_text", "read_bytes", "decompress", "decompressobj", "stream_reader", "extract", "extractall"),
        *(
            "model_validate_json",
            "validate_json",
            "connect",
            "accept",
            "recv",
            "recv_into",
            "recvmsg",
            "makefile",
            "readlink",
            "sock_accept",
            "sock_recv",
        ),
    }
)
_JAVA: Final = re.compile(
    r"\b(ProcessBuilder|Runtime\.getRuntime|Class\.forName|URLClassLoader|defineClass|System\.load(?:Library)?"
    r"|ObjectInputStream|new DataInputStream|getResourceAsStream|new Socket|new ServerSocket|SocketChannel\.open"
    r"|extends Socket|openSocketChannel|openConnection|openStream|Files\.\w+"
    r"|new File(?:InputStream|OutputStream|Reader|Writer)"
    r"|RandomAccessFile|readTrees?|readValues?|readerFor\w*|treeToValue|createParser|DocumentBuilder|SAXParser"
    r"|Inflater|GZIPInputStream|ZipFile|JarFile)\b"
)
# An import, a text, a comment: first, since each may hold what begins another.
_JAVA_NO_CODE: Final = re.compile(
    r"^(?:import|package) [^\n]*|\"(?:\\.|[^\"\\\n])*\"|'(?:\\.|[^'\\\n])+'|//[^\n]*|/\*(?s:.*?)\*/", re.MULTILINE
)


class _Calls(ast.NodeVisitor):
    """Collects the calls of one module by the function around them."""

    def __init__(self) -> None:
        self.found: dict[str, list[str]] = {}
        self._names: dict[str, str] = {}
        self._around: list[str] = []

    def visit_Import(self, node: ast.Import) -> None:
        for each in node.names:
            self._names[each.asname or each.name.partition(".")[0]] = (
                each.name if each.asname else each.name.partition(".")[0]
            )

    def visit_ImportFrom(self, node: ast.ImportFrom) -> None:
        for each in node.names:
            self._names[each.asname or each.name] = f"{node.module}.{each.name}"

    def generic_visit(self, node: ast.AST) -> None:
        if not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            super().generic_visit(node)
            return
        self._around.append(node.name)
        for field, value in ast.iter_fields(node):
            for each in value if isinstance(value, list) else [value]:
                if isinstance(each, ast.AST) and field != "returns":
                    self.visit(each)
        self._around.pop()

    def visit_Call(self, node: ast.Call) -> None:
        method = node.func.attr if isinstance(node.func, ast.Attribute) else ""
        if not _CALLS.match(self._full_name(node.func)):
            if method in _METHODS:
                self._add(f".{method}")
            elif method == "json" and not node.args and not node.keywords:
                self._add(".json")
        self.generic_visit(node)

    def visit_arg(self, node: ast.arg) -> None:
        """Leave out its type."""

    def visit_AnnAssign(self, node: ast.AnnAssign) -> None:
        if node.value is not None:
            self.visit(node.value)

    # A function that is named may be called elsewhere: under another name, from a table, by a class below it.
    def visit_Attribute(self, node: ast.Attribute) -> None:
        self._named(node)
        self.visit(node.value)

    def visit_Name(self, node: ast.Name) -> None:
        self._named(node)

    def _named(self, node: ast.expr) -> None:
        full = self._full_name(node)
        if _CALLS.match(full):
            self._add(full)

    def _add(self, way: str) -> None:
        self.found.setdefault(".".join(self._around) or "module", []).append(way)

    def _full_name(self, node: ast.expr) -> str:
        parts: list[str] = []
        while isinstance(node, ast.Attribute):
            parts.append(node.attr)
            node = node.value
        if not isinstance(node, ast.Name):
            return ""
        return ".".join([self._names.get(node.id, node.id), *reversed(parts)])


def ways_of_python(source: str) -> dict[str, list[str]]:
    """Return the calls by which something enters, sorted, by the function (or ``module``) that makes them."""
    calls = _Calls()
    calls.visit(ast.parse(source))
    return {function: sorted(found) for function, found in calls.found.items()}


def ways_of_java(source: str) -> dict[str, list[str]]:
    """Return the names of such calls in a Java file, sorted, under its one key ``class``."""
    code = _JAVA_NO_CODE.sub("", source)
    found = sorted(_JAVA.findall(code))
    return {"class": found} if found else {}


def _sources() -> Iterator[tuple[str, dict[str, list[str]]]]:
    for file in sorted(PYTHON.rglob("*.py")):
        yield file.relative_to(PYTHON).as_posix(), ways_of_python(file.read_text("utf-8"))
    for file in sorted(JAVA.rglob("*.java")):
        yield file.relative_to(JAVA).as_posix(), ways_of_java(file.read_text("utf-8"))


def test_each_way_in_is_reviewed() -> None:
    reviewed = yaml.safe_load(LIST.read_text("utf-8"))
    there = {(file, function): calls for file, found in _sources() for function, calls in found.items()}
    listed = {(file, function): row["calls"] for file, rows in reviewed.items() for function, row in rows.items()}
    differs = {key: calls for key, calls in there.items() if listed.get(key) != calls}
    assert differs == {}, "read these, then write into tests/data/ways-in.yaml why they are safe and what bounds them"
    assert sorted(listed.keys() - there.keys()) == [], "these are gone: remove their lines"


def test_each_review_says_why_and_what_bounds_it() -> None:
    sources = "".join(file.read_text("utf-8") for file in [*PYTHON.rglob("*.py"), *JAVA.rglob("*.java")])
    for file, rows in yaml.safe_load(LIST.read_text("utf-8")).items():
        for function, row in rows.items():
            assert set(row) == {"calls", "why", "bound"}, (file, function)
            assert len(str(row["why"]).split()) > 2, (file, function)
            assert str(row["bound"]).strip(), (file, function)
            for constant in re.findall(r"\b_?[A-Z]+(?:_[A-Z]+)+\b", str(row["bound"])):
                assert re.search(rf"\b{constant}\b", sources), (file, function, constant)


@pytest.mark.parametrize(
    ("source", "calls"),
    [
        ("import subprocess\nsubprocess.run(['x'])", ["subprocess.run"]),
        ("from subprocess import Popen as start\nstart(['x'])", ["subprocess.Popen"]),
        ("import os\nos.execv('x', [])", ["os.execv"]),
        ("exec(compile('', '', 'exec'))", ["compile", "exec"]),
        ("from pathlib import Path\nPath('x').read_bytes()", [".read_bytes"]),
        ("import zstandard as z\nz.ZstdDecompressor().decompress(b'')", [".decompress", "zstandard.ZstdDecompressor"]),
        ("import yaml\nyaml.safe_load('')", ["yaml.safe_load"]),
        ("import sys\nsys.path.insert(0, 'x')", ["sys.path.insert"]),
        ("import socket\nsocket.create_server(('', 0))", ["socket.create_server"]),
        ("import json\nlist(map(json.loads, []))", ["json.loads"]),
        ("import gzip\nopens = {'.gz': gzip.open}", ["gzip.open"]),
        ("import requests\nclass Own(requests.Session): pass", ["requests.Session"]),
        ("import psutil\ndef end(process: psutil.Process) -> psutil.Process: ...", []),
        ("import json\njson.dumps({})\n'a'.join([])", []),
    ],
)
def test_a_way_in_is_seen(source: str, calls: list[str]) -> None:
    assert [each for found in ways_of_python(source).values() for each in found] == calls


@pytest.mark.parametrize(
    ("source", "calls"),
    [
        ("import java.nio.file.Files;\nclass A { Object a = Files.newInputStream(b); }", ["Files.newInputStream"]),
        ("// JSON.readTree(a)\n/* new Socket() */ int a = '\"'; JSON.readTree(b); /* */", ["readTree"]),
        ('String a = "http://b"; new ProcessBuilder("//");', ["ProcessBuilder"]),
        ("import java.io.File;\nint a = b.read();", []),
    ],
)
def test_a_way_in_of_java_is_seen(source: str, calls: list[str]) -> None:
    assert ways_of_java(source).get("class", []) == calls


def test_a_python_that_is_started_imports_nothing_of_the_current_folder() -> None:
    started = re.compile(r"sys\.executable,\s*((?:\"[^\"]*\",?\s*)*)")
    wrong = [
        (file.relative_to(PYTHON).as_posix(), words)
        for file in sorted(PYTHON.rglob("*.py"))
        for words in started.findall(file.read_text("utf-8"))
        if ('"-m"' in words or '"-c"' in words) and '"-P"' not in words
    ]
    assert wrong == [], "-P: without it Python takes modules, those of its own among them, from the current folder"
