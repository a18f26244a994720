"""yarn-site.xml is edited as text: what Treadle does not change stays byte for byte, what it changes can be undone."""

from __future__ import annotations

import os
import stat
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.support.files import written

from treadle.admin.site_files import BEGIN, edit_site, parse_site, read_site, settings_of, take_back
from treadle.errors import UserError
from treadle.files import write_whole

SITE = Path("/conf/yarn-site.xml")
CLASS = "yarn.resourcemanager.scheduler.class"
WANTED = {CLASS: "TreadleScheduler", "yarn.scheduler.treadle.mode": "observe_only"}


def values(data: bytes) -> dict[str, str]:
    return {name: each.value.strip() for name, each in settings_of(parse_site(SITE, data)).items()}


def there_and_back(data: bytes) -> bytes:
    edit = edit_site(parse_site(SITE, data), WANTED)
    assert {name: values(edit.data)[name] for name in WANTED} == WANTED
    back, remarks = take_back(SITE, edit.data, edit.replaced, edit.added)
    assert remarks == []
    return back


ENTRY = b"<configuration>\n  <property><name>%b</name><value>C</value></property>\n</configuration>\n" % CLASS.encode()
FORMS = [
    b"<configuration></configuration>",
    b"<configuration>\n</configuration>\n",
    b"\xef\xbb\xbf<configuration>\n</configuration>",
    b"<configuration>\r\n\t<property>\r\n\t\t<name>a</name>\r\n\t\t<value>1</value>\r\n\t</property>\r\n</configuration>",
    b'<?xml version="1.0" encoding="ISO-8859-1"?>\n<!-- \xe4 -->\n<configuration> <!-- \xfc --> </configuration>',
    b"<configuration>\n  <property><name>%b</name><value> Capacity<!-- why --></value></property>\n</configuration>"
    % CLASS.encode(),
    b"<configuration>\n  <property><name>%b</name><value/></property>\n</configuration>\n" % CLASS.encode(),
    b"<configuration>\n  <property><name>%b</name><value>C</value><final>true</final></property></configuration>\n"
    % CLASS.encode(),
    b'<configuration>\n  <property name="%b" value="C"/>\n</configuration>\n' % CLASS.encode(),
    b"<configuration><!-- <property><name>%b</name><value>C</value></property> --></configuration>" % CLASS.encode(),
]


@pytest.mark.parametrize("data", FORMS)
def test_every_form_of_a_file_is_edited_and_restored(data: bytes) -> None:
    assert there_and_back(data) == data


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


def test_a_value_is_changed_where_it_stands_and_the_rest_goes_into_one_marked_block() -> None:
    text = edit_site(parse_site(SITE, ENTRY), WANTED).data.decode()
    assert text == (
        f"<configuration>\n  <property><name>{CLASS}</name><value>TreadleScheduler</value></property>\n"
        f"  {BEGIN}\n  <property>\n    <name>yarn.scheduler.treadle.mode</name>\n    <value>observe_only</value>\n"
        "  </property>\n  <!-- treadle: end -->\n</configuration>\n"
    )


def test_a_second_edit_changes_nothing() -> None:
    first = edit_site(parse_site(SITE, FORMS[3]), WANTED)
    assert edit_site(parse_site(SITE, first.data), WANTED).data == first.data


def test_a_value_with_any_letter_is_what_hadoop_reads() -> None:
    wanted = {"yarn.scheduler.treadle.config.file": "/opt/ä & <b>"}
    data = edit_site(parse_site(SITE, FORMS[4]), wanted).data
    assert values(data) == wanted


def test_what_others_changed_stays_and_is_reported() -> None:
    edit = edit_site(parse_site(SITE, ENTRY), WANTED)
    edited = edit.data.replace(b"observe_only", b"enforce").replace(b"<configuration>", b"<configuration> <!-- ann -->")
    edited = edited.replace(
        b"  <!-- treadle: end", b"<property><name>own</name><value>1</value></property>\n  <!-- treadle: end"
    )
    back, remarks = take_back(SITE, edited, edit.replaced, edit.added)
    assert values(back) == {CLASS: "C", "own": "1"}
    assert b"treadle" not in back
    assert b"<!-- ann -->" in back
    assert remarks == [
        "yarn.scheduler.treadle.mode was 'enforce': taken out with what Treadle wrote",
        "own is not a property of Treadle, though it was among its lines: left there",
    ]


def test_another_scheduler_that_somebody_chose_since_is_left() -> None:
    edit = edit_site(parse_site(SITE, FORMS[5]), WANTED)
    edited = edit.data.replace(b"TreadleScheduler", b"FairScheduler")
    back, remarks = take_back(SITE, edited, edit.replaced, edit.added)
    assert values(back)[CLASS] == "FairScheduler"
    assert remarks == [f"{CLASS} is 'FairScheduler', not what Treadle wrote: left as it is"]


def test_lines_of_ours_are_found_though_a_tool_wrote_the_file_anew_without_comments() -> None:
    edit = edit_site(parse_site(SITE, FORMS[3]), WANTED)
    without = b"\n".join(line for line in edit.data.split(b"\n") if b"<!--" not in line)
    back, remarks = take_back(SITE, without, edit.replaced, edit.added)
    assert (values(back), remarks) == ({"a": "1"}, [])


def test_included_files_count_and_a_final_value_there_is_refused(tmp_path: Path) -> None:
    entry = f"<property><name>{CLASS}</name><value>C</value>{{}}</property>"
    (tmp_path / "more.xml").write_text(f"<configuration>{entry.format('')}</configuration>")
    site = tmp_path / "yarn-site.xml"
    site.write_text(
        '<configuration xmlns:xi="http://www.w3.org/2001/XInclude">\n<xi:include href="more.xml"/>\n</configuration>'
    )
    edit = edit_site(read_site(site), WANTED)
    assert dict(edit.added) == WANTED
    (tmp_path / "more.xml").write_text(f"<configuration>{entry.format('<final>true</final>')}</configuration>")
    with pytest.raises(UserError, match=r"more\.xml:1: .* is final and is 'C'; make it 'TreadleScheduler' there"):
        edit_site(read_site(site), WANTED)
    (tmp_path / "more.xml").unlink()
    with pytest.raises(UserError, match=r"yarn-site\.xml:2: it includes more\.xml, which is not a file here"):
        edit_site(read_site(site), WANTED)


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
    site.write_bytes(edit_site(read_site(site), WANTED).data)
    assert settings_of(read_site(site))[CLASS].value == "TreadleScheduler"


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
