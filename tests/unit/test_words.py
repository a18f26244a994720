"""Pages are short, in short sentences, without the patterns that make them hard to read."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.support.prose import CORRECT, IN_CODE, ROOT, in_code, length, matches, pages, sentences, shown, words

PAGES = pages()
NAMES = list(PAGES)
SHOWN = shown()
SETTINGS = (ROOT / "docs" / "site" / "mkdocs.yml").read_text("utf-8")
IN_NAVIGATION = {
    line.rpartition(" ")[2].replace("index.md", "../README.md")
    for line in SETTINGS.partition("\nnav:\n")[2].splitlines()
    if ".md" in line
}
LONGEST, LONG, LONG_SHARE = 40, 25, 0.05
SITE_PAGES, SITE_WORDS, RESULT_WORDS, DECISION_WORDS = 55, 60_000, 1_500, 2_000


@pytest.mark.parametrize("name", NAMES)
def test_no_sentence_is_too_long(name: str) -> None:
    assert [each for each in sentences(PAGES[name].read_text("utf-8")) if length(each) > LONGEST] == []


def test_few_sentences_are_long() -> None:
    lengths = [length(each) for page in PAGES.values() for each in sentences(page.read_text("utf-8"))]
    assert sum(each > LONG for each in lengths) <= LONG_SHARE * len(lengths)


@pytest.mark.parametrize("name", NAMES)
def test_a_page_has_none_of_the_patterns(name: str) -> None:
    assert matches(PAGES[name].read_text("utf-8")) == [], "reword, or add a correct use to tests/data/words.yaml"


def test_texts_that_users_see_have_none_of_the_patterns() -> None:
    assert len(SHOWN) > 200
    assert {name: found for name, text in SHOWN.items() if (found := matches(text))} == {}


@pytest.mark.parametrize(
    ("kind", "text"),
    [
        ("help", "Compare the placements that Treadle proposes"),
        ("help of an option", "Show what would change, and change nothing."),
        ("settings", "yarn.scheduler.treadle.mode"),
        ("messages", "no sidecar can be asked: "),
        ("logs", "compiling kernels"),
        ("metrics", "1: the ResourceManager answers"),
        ("dashboard", "placements a second"),
        ("logs of the ResourceManager", "the engine left it next to idle room"),
    ],
)
def test_each_kind_of_text_is_looked_at(kind: str, text: str) -> None:
    assert any(text in shown for shown in SHOWN.values()), kind


def test_docstrings_and_comments_of_a_package_have_no_more_of_the_patterns() -> None:
    """Reword what is new; lower tests/data/words-in-code.yaml when a package has fewer."""
    assert {package: found for package, found in in_code().items() if len(found) > IN_CODE.get(package, 0)} == {}


@pytest.mark.parametrize("use", CORRECT)
def test_a_correct_use_occurs(use: str) -> None:
    texts = [*SHOWN.values(), *(page.read_text("utf-8") for page in PAGES.values())]
    assert any(use in text for text in texts)


def test_the_site_is_no_larger_than_its_bounds() -> None:
    site = [ROOT / "docs" / name for name in IN_NAVIGATION]
    assert 40 < len(site) <= SITE_PAGES
    assert sum(map(words, site)) <= SITE_WORDS


@pytest.mark.parametrize("page", sorted((ROOT / "docs" / "results").glob("*.md")), ids=lambda page: page.stem)
def test_a_page_of_results_is_short(page: Path) -> None:
    assert words(page) <= RESULT_WORDS


def test_an_administrator_decides_from_three_short_pages() -> None:
    readme = PAGES["README.md"]
    assert len(readme.read_text("utf-8").splitlines()) <= 120
    assert sum(map(words, (readme, PAGES["docs/features.md"], PAGES["docs/running-it.md"]))) <= DECISION_WORDS


def test_sentences_of_a_page_are_found() -> None:
    page = "# A heading\n\nOne `a b c` here. [Two words](x.md) there!\n\n```\nno\n```\n\n| a | b |\n\n- a point\n"
    assert [length(each) for each in sentences(page)] == [3, 3, 2]
    found = matches("He told nobody. [x.md](x.md)\n\n```\nnobody\n```\n")
    assert [each.partition(":")[0] for each in found] == ["somebody", "file name as link"]
    assert all("He told nobody" in each for each in found)
