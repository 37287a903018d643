"""Containers of a real engine with hostile labels, commands and output: verbs print them harmlessly."""

import json
from contextlib import closing
from typing import Any

from container_jobs import engine, led_to
from engines import RealEngine, box_archive
from jobtop.core.measure.collectors.docker.model import JOB_LABEL
from support import Jobtop

__all__ = ["engine"]

EVIL = "\x1b]0;owned\x07\x1b[31m[red]\u202e\r\nnext"
LABELS = {
    "com.docker.compose.project": EVIL,
    "com.docker.compose.service": EVIL,
    JOB_LABEL: "../../../etc/passwd",
    EVIL: "x" * 5000,
}


def unnamed_image(engine: RealEngine) -> str:
    """The id of an image without a name."""
    with closing(engine.api()) as api:
        raw: Any = api
        parameters = {"fromSrc": "-", "message": "unnamed"}
        answer = raw._post(raw._url("/images/create"), data=box_archive(), params=parameters)
        return str(json.loads(answer.text.splitlines()[-1])["status"])


def test_hostile_text_of_containers_is_printed_harmlessly(jobtop: Jobtop, engine: RealEngine) -> None:
    jobtop = led_to(jobtop, engine)
    command = ("sh", "-c", 'printf "%s\n" "$0"; sleep 1000', EVIL)
    with engine.container(*command, name="hostile", labels=LABELS) as container:
        texts = [("containers", "--all"), ("containers", "inspect", "hostile"), ("containers", "advise", "hostile")]
        for verb in texts:
            said = jobtop(*verb)
            assert not set("\x1b\x07\r\u202e") & set(said.stdout + said.stderr), verb
        assert "hostile" in jobtop("containers", "--all").stdout
        assert container in jobtop("containers", "--all", "--json").stdout
        found = json.loads(jobtop("containers", "--project", EVIL, "--json").stdout)
        assert container in json.dumps(found)
        assert "next" in jobtop("containers", "logs", "hostile").stdout


def test_a_container_of_an_image_without_a_name_is_listed(jobtop: Jobtop, engine: RealEngine) -> None:
    image = unnamed_image(engine)
    with engine.container("sleep", "1000", name="unnamed", image=image):
        listed = led_to(jobtop, engine)("containers")
        assert listed.returncode == 0, listed.stderr
        assert "unnamed" in listed.stdout
    with closing(engine.api()) as api:
        api.remove_image(image)
