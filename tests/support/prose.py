"""The prose of a documentation page: its sentences, its words, and patterns that make it hard to read."""

from __future__ import annotations

import ast
import io
import re
import tokenize
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import yaml

ROOT: Final = Path(__file__).parents[2]
CORRECT: Final[list[str]] = yaml.safe_load((ROOT / "tests" / "data" / "words.yaml").read_text("utf-8"))
"""Correct uses of the patterns."""
IN_CODE: Final[dict[str, int]] = yaml.safe_load((ROOT / "tests" / "data" / "words-in-code.yaml").read_text("utf-8"))
"""The most patterns that docstrings and comments of a package may have; none where it is not named."""
PATTERNS: Final = {
    "headless": r"\b[Ww]hat (?:is|was|are|were|has|had|they|it|the)\b[^?|]*?[.;:,]",
    "fronted": r"(?:^|[.;:] )Of (?!course)[a-z` ]+",
    "somebody": r"\b(?:[Nn]obody|[Ss]omebody|[Ww]hoever)\b",
    "person": r"\b(?:he|him|his)\b",
    "archaic": r"\b(?:anew|alike|beside|mended|manieth|in the mean|for ever|put right|goes by|stands by)\b",
    "negated noun": r"(?<![Tt]here )\bis no [a-z]+\b",
    "genitive": r"\bof (?:yours|ours|theirs)\b",
    "file name as link": r"\[[^]]*\.md\]\(",
    "history": r"\b(?:busy machine|[Tt]he goal (?:was|is|of)|goals? (?:is|are|was|were) missed|on another day)\b",
}
"""Patterns by name: they are on no page and in no text that users see, but for the correct uses."""
BETWEEN: Final = "\n|\n"
"""Between texts that have nothing to do with each other: no pattern goes over it."""
_JAVA_STRING: Final = re.compile(r'"((?:\\.|[^"\\\n])* (?:\\.|[^"\\\n])*)"')
_END: Final = re.compile(r"(?<=[.!?])[)\"*]*\s+(?=[\"(`*\[A-Z0-9])")
_ITEM: Final = re.compile(r"^\s*(?:[-*]|\d+\.) +")


def paragraphs(text: str) -> list[str]:
    """Return the paragraphs and points of lists of a page: without code, tables, headings and comments."""
    text = re.sub(r"^---\n.*?^---\n", "", text, count=1, flags=re.MULTILINE | re.DOTALL)
    text = re.sub(r"^ *```.*?^ *```", "\n", text, flags=re.MULTILINE | re.DOTALL)
    text = re.sub(r"<!--.*?-->", "", text, flags=re.DOTALL)
    found: list[str] = []
    open_paragraph = False
    for line in text.splitlines():
        bare = line.lstrip("> ")
        if not bare or bare.startswith(("|", "#", "![")) or (line.startswith("    ") and not open_paragraph):
            open_paragraph = False
            continue
        if not open_paragraph or _ITEM.match(line):
            found.append("")
        open_paragraph = True
        found[-1] += " " + _ITEM.sub("", bare, count=1)
    return [paragraph.strip() for paragraph in found]


def sentences(text: str) -> list[str]:
    """Return the sentences of a page; code inside one counts as a word, a link as its text."""
    plain = []
    for paragraph in paragraphs(text):
        text_alone = re.sub(r"\[([^]]*)\]\([^)]*\)", r"\1", re.sub(r"`[^`]*`", "`code`", paragraph))
        plain += [each for each in _END.split(text_alone) if re.search(r"\w", each)]
    return plain


def length(sentence: str) -> int:
    """Return how many words a sentence has."""
    return len(re.findall(r"\S*\w\S*", sentence))


def matches(text: str) -> list[str]:
    """Return the patterns in a page's prose and tables, each with the words around it."""
    body = re.sub(r"^ *```.*?^ *```", "\n", text, flags=re.MULTILINE | re.DOTALL)
    body = re.sub(r"^#.*", "", body, flags=re.MULTILINE)
    for use in CORRECT:
        body = body.replace(use, "")
    body = re.sub(r"`[^`\n]*`", "`code`", body)
    found = ((name, match) for name, pattern in PATTERNS.items() for match in re.finditer(pattern, body, re.M))
    return [f"{name}: {body[max(0, match.start() - 30) : match.end() + 30]!r}" for name, match in found]


def words(page: Path) -> int:
    """Return how many words a page has: all of it."""
    return len(page.read_text("utf-8").split())


def pages() -> dict[str, Path]:
    """Return README, CONTRIBUTING and the pages of the docs, by their path in the repository."""
    found = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").rglob("*.md"))]
    return {page.relative_to(ROOT).as_posix(): page for page in found}


def shown() -> dict[str, str]:
    """Return texts that users see but pages do not have: help, comments of settings, messages, logs, the dashboard."""
    found = {}
    files = [*(ROOT / "conf").rglob("*.*"), *(ROOT / "docs" / "examples").rglob("*.yaml")]
    for file in files:
        lines = file.read_text("utf-8").splitlines()
        found[file] = "\n".join(line if file.suffix == ".xml" else line.partition("#")[2] for line in lines)
    for file in (ROOT / "python").rglob("*.py"):
        tree = ast.parse(file.read_text("utf-8"))
        found[file] = BETWEEN.join([*_strings(tree), *(_help(tree) if "cli" in file.parts else ())])
    for file in (ROOT / "java-shim").rglob("src/main/**/*.java"):
        found[file] = BETWEEN.join(_JAVA_STRING.findall(file.read_text("utf-8")))
    for file in (ROOT / "python" / "treadle" / "dashboard" / "static").glob("*.[jh]*"):
        found[file] = file.read_text("utf-8")
    return {file.relative_to(ROOT).as_posix(): text for file, text in found.items()}


def in_code() -> dict[str, list[str]]:
    """Return the patterns in docstrings and comments by package, each with its file and the words around it."""
    found: dict[str, list[str]] = {}
    for file in (ROOT / "python").rglob("*.py"):
        package = "/".join(file.relative_to(ROOT / "python").parts[:2])
        texts = matches(_docstrings_and_comments(file.read_text("utf-8")))
        found.setdefault(package, []).extend(f"{file.name}: {text}" for text in texts)
    return found


def _docstrings_and_comments(source: str) -> str:
    nodes = (node.value for node in ast.walk(ast.parse(source)) if isinstance(node, ast.Expr))
    texts = [node.value for node in nodes if isinstance(node, ast.Constant) and isinstance(node.value, str)]
    tokens = tokenize.generate_tokens(io.StringIO(source).readline)
    comments = [token.string.lstrip("# ") for token in tokens if token.type == tokenize.COMMENT]
    return BETWEEN.join([*texts, *comments])


def _help(tree: ast.Module) -> Iterator[str]:
    """Yield the help of a module's commands: the docstrings of functions."""
    yield str(ast.get_docstring(tree)).partition("\n")[0]  # the summary in the list of commands
    functions = (node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef) and node.decorator_list)
    yield from filter(None, map(ast.get_docstring, functions))


def _strings(tree: ast.AST) -> Iterator[str]:
    """Yield the texts of a module that have several words and are no docstrings."""
    alone = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and id(node) not in alone and " " in str(node.value):
            yield str(node.value)
