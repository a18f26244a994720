"""yarn-site.xml gets one line, and nothing else of it changes; it is read by Hadoop's own rules."""

from __future__ import annotations

import os
import stat
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.support.files import written

from treadle.admin.site_files import (
    INCLUDE,
    including,
    own_site,
    parse_site,
    read_site,
    settings_of,
    with_include,
    without_include,
)
from treadle.errors import UserError
from treadle.files import write_whole

SITE = Path("/conf/yarn-site.xml")
CLASS = "yarn.resourcemanager.scheduler.class"
WANTED = {CLASS: "TreadleScheduler", "yarn.scheduler.treadle.config.file": "/opt/ä & <b>"}


def values(data: bytes) -> dict[str, str]:
    return {name: each.value.strip() for name, each in settings_of(parse_site(SITE, data)).items()}


def there_and_back(data: bytes) -> bytes:
    file = parse_site(SITE, data)
    edited = with_include(file)
    assert edited.count(INCLUDE.encode()) == data.count(INCLUDE.encode()) + 1
    assert values(edited) == values(data), "where there is no treadle-site.xml"
    assert with_include(parse_site(SITE, edited)) == edited
    found = {name: each.value for name, each in including(file, WANTED).items()}
    assert {name: found[name] for name in WANTED} == WANTED
    return without_include(edited)


ENTRY = b"<configuration>\n  <property><name>%b</name><value>C</value></property>\n</configuration>\n" % CLASS.encode()
FORMS = [
    b"<configuration></configuration>",
    b"<configuration>\n</configuration>\n",
    b"\xef\xbb\xbf<configuration>\n</configuration>",
    b"<configuration>\r\n\t<property>\r\n\t\t<name>a</name>\r\n\t\t<value>1</value>\r\n\t</property>\r\n</configuration>",
    b'<?xml version="1.0" encoding="ISO-8859-1"?>\n<!-- \xe4 -->\n<configuration> <!-- \xfc --> </configuration>',
    b"<configuration>\n  <property><name>%b</name><value> Capacity<!-- why --></value></property>\n</configuration>"
    % CLASS.encode(),
    b'<configuration>\n  <property name="%b" value="C"/>\n</configuration>\n' % CLASS.encode(),
    b"<configuration><!-- <property><name>%b</name><value>C</value></property> --></configuration>" % CLASS.encode(),
    b"<configuration>\n</configuration>\n<!-- </configuration> -->\n",
    b"<configuration xmlns:xi='http://www.w3.org/2001/XInclude'>\n  </configuration >",
]


@pytest.mark.parametrize("data", FORMS)
def test_every_form_of_a_file_gets_the_line_and_is_restored(data: bytes) -> None:
    assert there_and_back(data) == data


def test_an_empty_element_is_opened() -> None:
    assert values(there_and_back(b'<?xml version="1.0"?>\n<configuration />\n')) == {}


@given(
    st.lists(st.tuples(st.sampled_from(["a", "b", CLASS, "m"]), st.text("xyz &;äß€\n", max_size=6)), max_size=5),
    st.sampled_from(["\n", "\r\n", " ", ""]),
    st.sampled_from(["utf-8", "iso-8859-1", "windows-1252"]),
    st.booleans(),
)
def test_whatever_stands_in_a_file_is_restored(
    entries: list[tuple[str, str]], newline: str, encoding: str, comments: bool
) -> None:
    text = f'<?xml version="1.0" encoding="{encoding}"?>{newline}<configuration>{newline}'
    for name, value in entries:
        plain = value.replace("&", "&amp;")
        text += f"  <property>{newline}<name>{name}</name><value>{plain}</value></property>{newline}"
        text += f"<!-- {value.replace('-', '')} -->" if comments else ""
    data = (text + "</configuration>").encode(encoding, "xmlcharrefreplace")
    assert there_and_back(data) == data


def test_the_line_comes_last_and_the_file_next_to_it_is_read(tmp_path: Path) -> None:
    site = tmp_path / "yarn-site.xml"
    site.write_bytes(with_include(parse_site(site, ENTRY)))
    assert site.read_bytes() == ENTRY.replace(b"</conf", f"  {INCLUDE}\n</conf".encode())
    assert {name: each.value for name, each in settings_of(read_site(site)).items()} == {CLASS: "C"}
    (tmp_path / "treadle-site.xml").write_bytes(own_site(WANTED))
    assert {name: each.value for name, each in settings_of(read_site(site)).items()} == WANTED


def test_a_line_in_a_comment_is_none() -> None:
    data = f"<configuration><!-- {INCLUDE} --></configuration>".encode()
    assert there_and_back(data) == data


def test_an_included_file_counts_and_one_that_is_missing_is_refused(tmp_path: Path) -> None:
    site = written(tmp_path / "yarn-site.xml", "<configuration>\n<include href='more.xml'/>\n</configuration>")
    written(tmp_path / "more.xml", f"<configuration><property name='{CLASS}' value='C' final='true'/></configuration>")
    assert including(read_site(site), WANTED)[CLASS].value == "C", "it is final"
    (tmp_path / "more.xml").unlink()
    with pytest.raises(UserError, match=r"yarn-site\.xml:2: it includes more\.xml, which is not a file here"):
        read_site(site)


def test_files_that_include_each_other_are_refused(tmp_path: Path) -> None:
    site = written(tmp_path / "yarn-site.xml", "<configuration><include href='yarn-site.xml'/></configuration>")
    with pytest.raises(UserError, match="is that a circle"):
        settings_of(read_site(site))


@pytest.mark.parametrize(
    ("data", "said"),
    [
        (b'<!DOCTYPE a [<!ENTITY x "y">]><configuration/>', ":1: it has a document type"),
        ("<configuration/>".encode("utf-16"), "UTF-16, which is not edited"),
        (b'<?xml version="1.0" encoding="cp037"?><configuration/>', "save it as UTF-8"),
        (b'<?xml version="1.0" encoding="shift_jis"?><configuration/>', "save it as UTF-8"),
        (b'<?xml version="1.0" encoding="no-such"?><configuration/>', "save it as UTF-8"),
        (b"<configuration>\n<property>\n</configuration>", ":3: mismatched tag; put the XML right first"),
        (b"<other/>", "its root is <other>"),
        (b"", "put the XML right first"),
    ],
)
def test_a_file_that_cannot_be_edited_safely_is_refused(data: bytes, said: str) -> None:
    with pytest.raises(UserError) as error:
        parse_site(SITE, data)
    assert said in str(error.value)
    assert str(SITE) in str(error.value)


def test_a_fallback_counts_where_hadoop_takes_it_and_only_there(tmp_path: Path) -> None:
    fallback = f"<fallback><property><name>{CLASS}</name><value>F</value></property></fallback>"
    include = f'<configuration><include href="more.xml">{fallback}</include></configuration>'
    site = written(tmp_path / "yarn-site.xml", include)
    assert settings_of(read_site(site))[CLASS].value == "F", "there is no more.xml"
    (tmp_path / "more.xml").write_text(
        "<configuration><property><name>a</name><value>1</value></property></configuration>"
    )
    assert set(settings_of(read_site(site))) == {"a"}


def test_attributes_that_hadoop_does_not_know_are_passed_over() -> None:
    named = b'<property start="x" line="y" opened="z" value_end="1">'
    data = b"<configuration>" + named + b"<name>a</name><value>1</value></property></configuration>"
    assert values(data) == {"a": "1"}
    assert there_and_back(data) == data


# A file is written whole or not at all.


def test_a_new_file_is_for_this_user_alone(tmp_path: Path) -> None:
    write_whole(tmp_path / "a", "ä")
    assert (tmp_path / "a").read_bytes() == b"\xc3\xa4"
    assert stat.S_IMODE((tmp_path / "a").stat().st_mode) == 0o600


def test_mode_and_content_are_there_at_once(tmp_path: Path) -> None:
    write_whole(tmp_path / "a", b"1", lambda file: os.fchmod(file, 0o644))
    write_whole(tmp_path / "a", b"2", lambda file: os.fchmod(file, 0o640))
    assert stat.S_IMODE((tmp_path / "a").stat().st_mode) == 0o640
    assert (tmp_path / "a").read_text() == "2"


def test_what_cannot_be_written_leaves_the_old_file_and_nothing_else(tmp_path: Path) -> None:
    write_whole(tmp_path / "a", "old")

    def refuse(_: int) -> None:
        raise PermissionError("no")

    with pytest.raises(PermissionError):
        write_whole(tmp_path / "a", "new", refuse)
    assert [path.name for path in tmp_path.iterdir()] == ["a"]
    assert (tmp_path / "a").read_text() == "old"


def test_a_link_is_replaced_not_followed(tmp_path: Path) -> None:
    (tmp_path / "other").write_text("mine")
    (tmp_path / "a").symlink_to(tmp_path / "other")
    write_whole(tmp_path / "a", "new")
    assert (tmp_path / "other").read_text() == "mine"
    assert not (tmp_path / "a").is_symlink()
