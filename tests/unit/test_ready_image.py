"""An image that cannot be had is named with what the engine said and what to do."""

import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from fake_engine import FakeEngine, fake_engine
from jobtop.core.errors import NoSuchImage
from jobtop.core.measure.collectors.docker.client import Engine
from jobtop.core.measure.collectors.docker.model import Endpoint
from jobtop.lifecycle.containers.images import ready_image


@pytest.fixture
def fake() -> Iterator[FakeEngine]:
    with tempfile.TemporaryDirectory(prefix="jt-", dir="/tmp") as name, fake_engine(Path(name) / "d.sock", []) as found:
        yield found


def ready(fake: FakeEngine, image: str, policy: str) -> str:
    with Engine(Endpoint("docker", fake.url, "socket"), 2.0) as engine:
        return ready_image(engine, image, policy, lambda: lambda _: None).id


def test_an_image_that_is_here_is_not_pulled(fake: FakeEngine) -> None:
    assert ready(fake, "box:1", "missing") == "sha256:0"
    assert not any("create" in each for each in fake.asked)


@pytest.mark.parametrize("policy", ["missing", "always", "never"])
def test_a_missing_image_is_named_with_a_remedy(fake: FakeEngine, policy: str) -> None:
    with pytest.raises(NoSuchImage) as raised:
        ready(fake, "nope:1", policy)
    said = str(raised.value)
    assert "nope:1" in said
    assert "docker images" in said
    assert ("denied" in said) == (policy != "never")
    assert fake.url not in said


# What Docker 20.10 says without a network, and Podman 4.3 of a registry that does not listen.
NO_NETWORK = 'Get "https://registry-1.docker.io/v2/": dial tcp: lookup registry-1.docker.io: network is unreachable'
REFUSED = 'pinging container registry a: Get "https://a/v2/": dial tcp 127.0.0.1:1: connect: connection refused'


@pytest.mark.parametrize("words", [NO_NETWORK, REFUSED])
@pytest.mark.parametrize(
    ("image", "registry"),
    [("nope:1", "docker.io"), ("team/nope:1", "docker.io"), ("localhost:1/nope", "localhost:1"), ("a.b/c/d", "a.b")],
)
def test_a_registry_that_cannot_be_reached_is_named(fake: FakeEngine, words: str, image: str, registry: str) -> None:
    fake.pull_error = words
    with pytest.raises(NoSuchImage) as raised:
        ready(fake, image, "missing")
    said = str(raised.value)
    assert f"the registry {registry} could not be reached" in said
    assert "is the name right" not in said
