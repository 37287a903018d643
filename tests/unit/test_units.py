"""Values are read as people write them, shown as people read them, and text is never able to harm a terminal."""

import math
import unicodedata

import pytest

from jobtop.core.errors import BadValue
from jobtop.core.units import (
    ABSENT,
    MAX_BYTES,
    cell_width,
    format_bytes,
    format_duration,
    format_percent,
    number_of,
    parse_duration,
    parse_size,
    printable,
)


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("0", 0),
        ("90", 90),
        ("1.5", 1.5),
        (".5", 0.5),
        ("90s", 90),
        ("10m", 600),
        ("10M", 600),
        ("1h30m", 5400),
        ("1H30M", 5400),
        ("1h 30m", 5400),
        ("1.5h", 5400),
        ("2d", 172800),
        ("2d4h", 187200),
        ("500ms", 0.5),
        ("1s500ms", 1.5),
        ("1d2h3m4s5ms", 93784.005),
        ("  10 m ", 600),
        ("36525d", 36525 * 86400),
    ],
)
def test_a_duration_is_read(text: str, seconds: float) -> None:
    assert parse_duration(text) == pytest.approx(seconds)


@pytest.mark.parametrize(
    "text",
    ["", " ", "-1", "-1s", "nan", "inf", "1e3", "1x", "h", "30m1h", "1m1m", "1.5.2", "1h30", "1,5h", "٣", "1w", "\n"],
)
def test_what_is_not_a_duration_is_refused_in_one_line(text: str) -> None:
    with pytest.raises(BadValue, match=r'^".*" .*duration.*1h30m'):
        parse_duration(text)


@pytest.mark.parametrize(("text", "problem"), [("36526d", "more than 100 years"), ("9" * 39, "100 years")])
def test_an_absurd_duration_is_refused(text: str, problem: str) -> None:
    with pytest.raises(BadValue, match=problem):
        parse_duration(text)


@pytest.mark.parametrize(
    ("text", "size"),
    [
        ("0", 0),
        ("1024", 1024),
        ("1b", 1),
        ("1k", 2**10),
        ("1KB", 2**10),
        ("512M", 512 * 2**20),
        ("512mb", 512 * 2**20),
        ("8G", 8 * 2**30),
        ("8Gi", 8 * 2**30),
        ("8GiB", 8 * 2**30),
        ("8GB", 8 * 2**30),
        ("1.5G", 3 * 2**29),
        (".5k", 512),
        ("2TiB", 2**41),
        (" 8 GiB ", 8 * 2**30),
        (str(MAX_BYTES), MAX_BYTES),
        ("0.3k", 307),
    ],
)
def test_a_size_is_read_in_binary_units(text: str, size: int) -> None:
    assert parse_size(text) == size


@pytest.mark.parametrize("text", ["", " ", "-1", "-1G", "nan", "inf", "1e3", "5P", "G", "1ib", "8 Gibi", "٣", "0x10"])
def test_what_is_not_a_size_is_refused_in_one_line(text: str) -> None:
    with pytest.raises(BadValue, match=r'^".*" .*size.*8GiB'):
        parse_size(text)


@pytest.mark.parametrize(
    ("text", "problem"),
    [("8388608T", "more than 8 EiB"), (str(MAX_BYTES + 1), "more than 8 EiB"), ("1.5", "whole"), ("1.5B", "whole")],
)
def test_an_absurd_size_is_refused(text: str, problem: str) -> None:
    with pytest.raises(BadValue, match=problem):
        parse_size(text)


def test_a_message_never_repeats_a_huge_or_harmful_value() -> None:
    for parse in (parse_duration, parse_size):
        with pytest.raises(BadValue, match="is too long") as caught:
            parse("9" * 10_000)
        assert len(str(caught.value)) < 120
        with pytest.raises(BadValue) as caught:
            parse("1\x1b[31m\nx")
        assert str(caught.value).isprintable()


@pytest.mark.parametrize(
    ("seconds", "shown"),
    [
        (0, "0s"),
        (0.0004, "0.4ms"),
        (0.005, "5ms"),
        (0.00994, "9.9ms"),
        (0.00996, "10ms"),
        (0.408, "408ms"),
        (0.9994, "999ms"),
        (0.9996, "1s"),
        (4.5, "4.5s"),
        (6, "6s"),
        (9.94, "9.9s"),
        (9.96, "10s"),
        (59.4, "59s"),
        (59.6, "1m00s"),
        (66, "1m06s"),
        (3599.4, "59m59s"),
        (3599.6, "1h00m"),
        (2 * 3600 + 5 * 60 + 59, "2h05m"),
        (86399.6, "1d00h"),
        (3 * 86400 + 4 * 3600, "3d04h"),
        (1000 * 86400 + 4 * 3600, "1000d"),
        (-3.2, "-3.2s"),
    ],
)
def test_a_duration_is_shown(seconds: float, shown: str) -> None:
    assert format_duration(seconds) == shown


@pytest.mark.parametrize(("seconds", "shown"), [(0.408, "0s"), (6.9, "6s"), (59.9, "59s"), (66.9, "1m06s")])
def test_a_duration_that_still_counts_has_completed_seconds_only(seconds: float, shown: str) -> None:
    assert format_duration(seconds, is_counting=True) == shown


@pytest.mark.parametrize(
    ("size", "shown"),
    [
        (0, "0 B"),
        (512, "512 B"),
        (1023, "1023 B"),
        (1024, "1.0 KiB"),
        (2**20 - 1, "1.0 MiB"),
        (4.4 * 2**20, "4.4 MiB"),
        (1.2 * 2**30, "1.2 GiB"),
        (2**40, "1.0 TiB"),
        (5000 * 2**40, "5000.0 TiB"),
        (-2048, "-2.0 KiB"),
    ],
)
def test_a_size_is_shown_in_binary_units(size: float, shown: str) -> None:
    assert format_bytes(size) == shown


@pytest.mark.parametrize(
    ("ratio", "shown"),
    [(0, "0.0 %"), (0.004, "0.4 %"), (0.987, "98.7 %"), (0.9994, "99.9 %"), (0.9996, "100 %"), (3.804, "380 %")],
)
def test_a_ratio_is_shown_as_percent(ratio: float, shown: str) -> None:
    assert format_percent(ratio) == shown


@pytest.mark.parametrize("value", [None, math.nan, math.inf, -math.inf])
def test_what_is_absent_is_shown_as_a_dash_never_as_zero(value: float | None) -> None:
    assert [format_duration(value), format_bytes(value), format_percent(value)] == [ABSENT] * 3


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("plain", "plain"),
        ("naïve 日本 🎉 \\n", "naïve 日本 🎉 \\n"),
        ("no\u00a0break soft\u00adhyphen", "no\u00a0break soft\u00adhyphen"),
        ("a\nb\tc\rd", "a\\nb\\tc\\rd"),
        ("\x1b[2J\x07\x00", "\\x1b[2J\\x07\\x00"),
        ("\x7f\x85\x9b", "\\x7f\\x85\\x9b"),
        ("\u202eevil\u2066x\u2069", "\\u202eevil\\u2066x\\u2069"),
        ("a\u2028b\u2029", "a\\u2028b\\u2029"),
        ("\ud800\udcff", "\\ud800\\udcff"),
    ],
)
def test_text_is_made_harmless_and_otherwise_kept(text: str, shown: str) -> None:
    assert printable(text) == shown
    assert len(printable(text).splitlines()) == 1
    printable(text).encode()


def test_no_control_character_at_all_gets_through() -> None:
    controls = [chr(code) for code in range(0x110000) if unicodedata.category(chr(code)) in ("Cc", "Cs", "Zl", "Zp")]
    bidi = [chr(code) for code in range(0x2000, 0x2100) if unicodedata.bidirectional(chr(code)) in BIDI_CONTROLS]
    assert len(controls) == 65 + 2048 + 2
    assert len(bidi) == 9
    assert [character for character in controls + bidi if not printable(character).isascii()] == []


BIDI_CONTROLS = ("LRE", "RLE", "LRO", "RLO", "PDF", "LRI", "RLI", "FSI", "PDI")


@pytest.mark.parametrize(
    ("text", "columns"),
    [
        ("", 0),
        ("plain", 5),
        ("naïve", 5),
        ("日本", 4),
        ("ｆｕｌｌ", 8),
        ("e\u0301", 1),
        ("a\u200db", 2),
        ("한", 2),
        ("\u1112\u1161\u11ab", 2),
        ("🎉", 2),
        ("a\x1bb", 2),
        ("–", 1),
    ],
)
def test_the_columns_of_a_text_are_those_of_a_terminal(text: str, columns: int) -> None:
    assert cell_width(text) == columns


@pytest.mark.parametrize(
    ("number", "text"),
    [(None, "– jobs"), (0, "0 jobs"), (1, "1 job"), (1.0, "1 job"), (2, "2 jobs"), (1234, "1234 jobs")],
)
def test_a_number_is_followed_by_its_noun(number: float | None, text: str) -> None:
    assert number_of(number, "job") == text
    assert number_of(number, "process", "processes") == text.replace("jobs", "processes").replace("job", "process")
