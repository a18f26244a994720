"""What holds for all files: imports point one way, files stay short, no machine is named."""

from __future__ import annotations

import ast
import re
from collections import Counter
from collections.abc import Collection, Iterator
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import pytest

from treadle.model.containers import GROUP, TASK
from treadle.model.queues import APPLICATION
from treadle.policy.slearn.table import JOB

ROOT = Path(__file__).resolve().parents[2]
PACKAGE = ROOT / "python" / "treadle"
LAB = ROOT / "python" / "treadle_lab"
LINES_MAX = 800
LINES_ALONE = 80
"""A module with fewer lines and one importer is a part of that importer."""

BASE = {
    "errors",
    "events",
    "files",
    "processes",
    "sources",
    "__init__",
}

ALLOWED = {
    "__init__": set(),
    "__main__": {"cli"},
    "errors": set(),
    "files": set(),
    "events": set(),
    "processes": {"errors"},
    "sources": set(),
    "tables": set(),
    "compiled": {"config", "errors", "files", "sources"},
    "yarn": BASE,
    "dag": BASE,
    "config": BASE,
    "shipped": BASE | {"config"},
    "constraints": BASE,
    "wire": BASE,
    "workload": BASE | {"config", "constraints", "dag"},
    "planner": BASE | {"compiled", "dag"},
    "admin": BASE | {"compiled", "config", "live", "policy", "shipped", "simulate", "yarn"},
    "model": BASE | {"compiled", "constraints", "yarn"},
    "dashboard": BASE | {"yarn"},
    "history": BASE | {"config", "dag", "workload", "yarn"},
    "policy": BASE | {"compiled", "config", "constraints", "model", "yarn"},
    "sidecar": BASE | {"config", "constraints", "wire", "yarn"},
    "engine": BASE | {"compiled", "config", "constraints", "model", "policy", "yarn"},
    "explain": BASE | {"compiled", "config", "engine", "model", "policy", "yarn"},
    "am": BASE | {"config", "dag", "history", "planner", "yarn"},
    "record": BASE | {"compiled", "config", "constraints", "engine", "model", "policy", "wire"},
    "replay": BASE
    | {
        "config",
        "dag",
        "engine",
        "history",
        "live",
        "model",
        "policy",
        "record",
        "sidecar",
        "simulate",
        "simulator",
        "wire",
        "workload",
        "yarn",
    },
    "live": BASE
    | {
        "am",
        "compiled",
        "config",
        "constraints",
        "engine",
        "explain",
        "history",
        "model",
        "planner",
        "policy",
        "record",
        "sidecar",
        "wire",
        "yarn",
    },
    "simulator": BASE
    | {
        "compiled",
        "config",
        "constraints",
        "dag",
        "engine",
        "model",
        "planner",
        "policy",
        "sidecar",
        "wire",
        "workload",
        "yarn",
    },
    "simulate": BASE | {"shipped", "compiled", "config", "policy", "simulator", "workload"},
    "plots": BASE | {"compiled", "simulate", "sweep", "workload"},
    "sweep": BASE | {"shipped", "config", "policy", "record", "replay", "simulate", "simulator", "wire", "workload"},
}
EVERYTHING = BASE | {part for part in ALLOWED if not part.startswith("_")}
ALLOWED["cli"] = EVERYTHING | {"tables"}
"""What each part of the package may import besides itself."""

LAB_TOOLS = {
    "dags",
    "estimators",
    "fairness",
    "harness",
    "minicluster",
    "models",
    "planning",
    "plots",
    "rows",
}
LABORATORY = {
    "dags": set(),
    "minicluster": set(),
    "models": set(),
    "planning": {"dags"},
    "fairness": set(),
    "estimators": set(),
    "rows": set(),
    "harness": {"minicluster"},
    "sls": {"harness", "minicluster", "rows"},
    "demo": {"minicluster"},
    "bench": {"harness", "minicluster", "rows", "sls"},
    "plots": {"rows"},
    "gains": {"dags", "harness", "plots", "rows", "sls"},
    "papers": LAB_TOOLS | {"sls"},
    "docs": LAB_TOOLS | {"papers"},
}
LABORATORY["cli"] = set(LABORATORY)
"""What each part of the laboratory may import of it besides itself; of the product all but its commands."""
COMMANDS = {"cli", "docs", "gains"}
"""The parts of the laboratory that may import the product's commands."""

IGNORED = {
    ".git",
    ".venv",
    "build",
    "dist",
    "target",
    "__pycache__",
    ".hypothesis",
    ".mypy_cache",
    ".ruff_cache",
    ".pytest_cache",
}
TEXTS = {".py", ".java", ".md", ".xml", ".toml", ".yaml", ".yml", ".json", ".sh", ".cfg", ".properties", ".txt", ""}
HOME = re.compile(rf"(?<!\w)/(?:root|tmp|home/\w+|Users/\w+)/|{re.escape(str(ROOT))}\b")
# Anything fetched comes from wherever the reader's pip and Maven are set up to fetch from.
REGISTRY = re.compile(
    r"https?://[\w.:-]*(?:artifactory|nexus|pypi|registry|mirror|repo1?\.maven|repository\.apache)[\w.:-]*"
)


def parts(package: Path) -> list[str]:
    return sorted(path.stem for path in package.iterdir() if path.suffix == ".py" or (path / "__init__.py").is_file())


def files_of(part: str, package: Path = PACKAGE) -> list[Path]:
    alone = package / f"{part}.py"
    return [alone] if alone.is_file() else sorted((package / part).rglob("*.py"))


def imported(file: Path, package: Path = PACKAGE) -> Iterator[tuple[int, str]]:
    """Yield the parts of a package that a file imports, at its top or within functions."""
    known = {*parts(package), "__init__"}
    for node in ast.walk(ast.parse(file.read_bytes())):
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{file}:{node.lineno}: an import relative to its own place"
            # `from treadle import events` names a part, or something of the package's own.
            names = [f"{node.module}.{alias.name}" for alias in node.names]
        else:
            continue
        for name in names:
            top, _, rest = name.partition(".")
            if top == package.name:
                part = rest.partition(".")[0]
                yield node.lineno, part if part in known else "__init__"


def wrong_imports(part: str, package: Path, allowed: set[str], of: Path) -> list[str]:
    return [
        f"{file.relative_to(ROOT)}:{line}: imports {target}"
        for file in files_of(part, package)
        for line, target in imported(file, of)
        if target not in allowed
    ]


@pytest.mark.parametrize("part", parts(PACKAGE))
def test_imports_point_one_way(part: str) -> None:
    assert part in ALLOWED, f"say in ALLOWED what {part} may import"
    assert wrong_imports(part, PACKAGE, ALLOWED[part] | {part, "__init__"}, PACKAGE) == []
    assert wrong_imports(part, PACKAGE, set(), LAB) == [], "the product needs nothing of the laboratory"


@pytest.mark.parametrize("part", [part for part in parts(LAB) if part != "__init__"])
def test_imports_of_the_laboratory_point_one_way(part: str) -> None:
    assert part in LABORATORY, f"say in LABORATORY what {part} may import"
    assert wrong_imports(part, LAB, LABORATORY[part] | {part, "__init__"}, LAB) == []
    assert part in COMMANDS or wrong_imports(part, LAB, {*ALLOWED} - {"cli"}, PACKAGE) == []


@pytest.mark.parametrize("paper", sorted(path.name for path in (LAB / "papers").iterdir() if path.is_dir()))
def test_each_paper_is_read_by_itself(paper: str) -> None:
    named = {name for file in (LAB / "papers" / paper).glob("*.py") for name in modules_imported(file)}
    assert {name.split(".")[2] for name in named if name.startswith("treadle_lab.papers.")} <= {paper}


def test_tests_of_the_product_need_no_laboratory() -> None:
    wrong = [
        str(file.relative_to(ROOT))
        for folder in ("engine", "property", "unit")
        for file in (ROOT / "tests" / folder).rglob("*.py")
        if any(name.partition(".")[0] == LAB.name for name in modules_imported(file))
    ]
    assert wrong == [], "tests of the laboratory lie in tests/lab"


def test_no_two_parts_may_import_each_other_not_even_by_a_detour() -> None:
    for known in (ALLOWED, LABORATORY):
        TopologicalSorter({part: allowed - {part} for part, allowed in known.items()}).prepare()  # raises CycleError


def needed_by(file: Path, modules: Collection[str]) -> set[str]:
    """Return the modules among ``modules`` that a file imports, at its top, for types alone or within functions."""
    needed = set()
    for node in ast.walk(ast.parse(file.read_bytes())):
        if isinstance(node, ast.Import):
            needed |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            inner = {f"{node.module}.{alias.name}" for alias in node.names}
            needed |= {name if name in modules else str(node.module) for name in inner}
    return needed & set(modules)


def modules() -> dict[str, Path]:
    """Return the modules of both packages and their files."""
    found = {}
    for file in (*PACKAGE.rglob("*.py"), *LAB.rglob("*.py")):
        *above, last = file.relative_to(PACKAGE.parent).with_suffix("").parts
        found[".".join(above if last == "__init__" else [*above, last])] = file
    return found


def test_no_two_modules_name_each_other_not_even_for_types_or_within_functions() -> None:
    files = modules()
    needs = {name: needed_by(file, files) for name, file in files.items()}
    assert sum(map(len, needs.values())) > 1000
    TopologicalSorter(needs).prepare()  # raises CycleError, with the modules of the circle


def test_no_small_module_has_one_importer() -> None:
    files = modules()
    importers = Counter(name for file in files.values() for name in needed_by(file, files))
    small = {
        name
        for name, file in files.items()
        if importers[name] == 1 and not re.search(r"\.(cli|shares)\.", name) and file.name != "__init__.py"
        if len(file.read_bytes().splitlines()) < LINES_ALONE
    }
    assert small == set(), "put these into the modules that import them"


def test_a_circle_of_imports_is_found(tmp_path: Path) -> None:
    (tmp_path / "one.py").write_text("try:\n    from two import name\nexcept ImportError:\n    name = None\n")
    (tmp_path / "two.py").write_text("from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    import three\n")
    (tmp_path / "three.py").write_text("def later():\n    import one\n")
    needs = {name: needed_by(tmp_path / f"{name}.py", {"one", "two", "three"}) for name in ("one", "two", "three")}
    assert needs == {"one": {"two"}, "two": {"three"}, "three": {"one"}}
    with pytest.raises(CycleError):
        TopologicalSorter(needs).prepare()


def modules_imported(file: Path) -> set[str]:
    """Return the modules of the package that a file imports, and what it imports from them."""
    found = set()
    for node in ast.walk(ast.parse(file.read_bytes())):
        if isinstance(node, ast.ImportFrom) and node.module is not None:
            found |= {node.module, *(f"{node.module}.{alias.name}" for alias in node.names)}
        elif isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
    return found


def test_what_a_policy_keeps_beside_the_model_is_known_to_its_own_room_alone() -> None:
    """Other parts read the columns that its gate fills for a decide; the catalogue names the parts."""
    own = PACKAGE / "policy" / "slearn"
    wrong = [
        str(file.relative_to(ROOT))
        for part in ("model", "policy", "engine")
        for file in files_of(part)
        if own not in file.parents
        and file != PACKAGE / "policy" / "catalogue.py"
        and any(name.startswith("treadle.policy.slearn") for name in modules_imported(file))
    ]
    assert wrong == []


def test_the_model_has_no_column_of_a_policy_s_table() -> None:
    mirrored = {name for table in (APPLICATION, GROUP, TASK) for name in table.names or ()}
    assert mirrored.isdisjoint({*(JOB.names or ()), "pilot"})


def test_nothing_imports_the_command_line_but_what_starts_it() -> None:
    assert [part for part, allowed in ALLOWED.items() if "cli" in allowed] == ["__main__"]


def texts() -> Iterator[Path]:
    for folder in (ROOT, *(path for path in ROOT.iterdir() if path.is_dir() and path.name not in IGNORED)):
        found = folder.iterdir() if folder == ROOT else folder.rglob("*")
        for path in found:
            if path.is_file() and path.suffix in TEXTS and not IGNORED.intersection(path.relative_to(ROOT).parts):
                yield path


def test_no_file_is_too_long() -> None:
    lengths = {path.relative_to(ROOT): len(path.read_bytes().splitlines()) for path in (ROOT / "python").rglob("*.py")}
    assert len(lengths) > 20
    assert {path: lines for path, lines in lengths.items() if lines > LINES_MAX} == {}


@pytest.mark.parametrize("pattern", [HOME, REGISTRY], ids=["path", "registry"])
def test_no_machine_is_named(pattern: re.Pattern[str]) -> None:
    this = Path(__file__).resolve()
    found = [
        f"{path.relative_to(ROOT)}:{number}: {line.strip()}"
        for path in texts()
        if path != this
        for number, line in enumerate(path.read_text("utf-8").splitlines(), 1)
        if pattern.search(line)
    ]
    assert found == []


@pytest.mark.parametrize(
    ("pattern", "text"),
    [
        (HOME, "/home/somebody/x"),
        (HOME, "/root/.m2"),
        (REGISTRY, "https://repo1.maven.org/maven2"),
        (REGISTRY, "https://pypi.org/simple"),
    ],
)
def test_the_patterns_find_what_they_should(pattern: re.Pattern[str], text: str) -> None:
    assert pattern.search(text)
    assert not pattern.search("http://maven.apache.org/POM/4.0.0 target/root/x.py src/home/you/x")


def test_each_package_of_java_says_what_belongs_there_and_which_threads_run_it() -> None:
    packages = {file.parent for file in (ROOT / "java-shim").glob("*/src/main/java/io/treadle/**/*.java")}
    assert len(packages) > 10
    pages = {package: package / "package-info.java" for package in packages}
    assert [str(package) for package, page in pages.items() if not page.is_file()] == []
    silent = [page for page in pages.values() if not re.search(r"\bthreads?\b", page.read_text(), re.IGNORECASE)]
    assert silent == []
