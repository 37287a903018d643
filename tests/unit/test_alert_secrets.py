"""Secrets are read when they are used, from places that only this user can read, and are hidden in every text."""

import os
from pathlib import Path

import pytest

from jobtop.core.alerts.secrets import MOST_BYTES, Secrets, SecretUnavailable, read_secret

SECRET = "T0KEN-s3cr3t-value"


@pytest.fixture
def file(tmp_path: Path) -> Path:
    file = tmp_path / "token"
    file.write_text(f"  {SECRET}\nsecond line\n")
    file.chmod(0o600)
    return file


def test_a_word_names_a_variable_a_file_or_itself(file: Path) -> None:
    secrets = Secrets({"TOKEN": SECRET, "HOME": str(file.parent)})
    assert secrets.value("env:TOKEN") == SECRET
    assert secrets.value(f"file:{file}") == SECRET
    assert secrets.value("file:~/token") == SECRET
    assert secrets.value("file:token", str(file.parent)) == SECRET
    assert secrets.value("plain words") == "plain words"


def test_a_variable_that_is_not_set_is_named() -> None:
    with pytest.raises(SecretUnavailable, match="SLACK_URL"):
        Secrets({}).value("env:SLACK_URL")


@pytest.mark.parametrize("mode", [0o640, 0o604, 0o660, 0o610, 0o777])
def test_a_file_of_others_is_refused_without_its_content(file: Path, mode: int) -> None:
    file.chmod(mode)
    with pytest.raises(SecretUnavailable, match="chmod 600") as caught:
        read_secret(str(file))
    assert SECRET not in str(caught.value)


def test_what_is_no_small_regular_file_is_refused(tmp_path: Path, file: Path) -> None:
    os.mkfifo(tmp_path / "fifo", 0o600)
    (tmp_path / "large").write_text("x" * (MOST_BYTES + 1))
    (tmp_path / "empty").write_text("\n")
    for name in ("large", "empty"):
        (tmp_path / name).chmod(0o600)
    for name in ("fifo", "large", "empty", "missing", "."):
        with pytest.raises(SecretUnavailable):
            read_secret(f"{tmp_path}/{name}")
    (tmp_path / "own link").symlink_to(file)
    assert read_secret(f"{tmp_path}/own link") == SECRET


def test_files_and_links_of_another_user_are_refused(root: None, tmp_path: Path, file: Path) -> None:
    link = tmp_path / "link"
    link.symlink_to(file)
    os.chown(link, 1234, 1234, follow_symlinks=False)
    with pytest.raises(SecretUnavailable, match="1234"):
        read_secret(str(link))
    os.chown(file, 1234, 1234)
    with pytest.raises(SecretUnavailable, match="1234"):
        read_secret(str(file))


def test_what_was_read_is_hidden_also_in_parts_of_an_address() -> None:
    secrets = Secrets({"URL": f"https://hooks.example.org/services/B12345/{SECRET}?key=abcdefgh"})
    secrets.value("env:URL")
    said = secrets.hide(f"POST /services/B12345/{SECRET} to hooks.example.org failed: abcdefgh")
    assert SECRET not in said
    assert "abcdefgh" not in said
    assert "hooks.example.org" in said
