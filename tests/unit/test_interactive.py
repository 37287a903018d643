"""Which commands take over the terminal."""

import pytest

from jobtop.core.run.interactive import takes_over_terminal


@pytest.mark.parametrize(
    "line",
    [
        *("vim x", "/usr/bin/vim", "nvim", "less a b", "man ls", "htop", "watch ls", "tmux", "ssh host ls"),
        *("bash", "sh -i", "bash -l", "zsh", "bash -i script", "python", "python3", "python3.12 -q", "python -i x.py"),
        *("ipython", "node", "julia", "R", "R --vanilla", "psql db", "mysql -u me db", "sqlite3", "sqlite3 a.db"),
        *(
            "redis-cli",
            "env A=1 vim",
            "sudo vim x",
            "sudo -i",
            "sudo make install",
            "docker run -it image",
            "kubectl exec -it pod -- sh",
        ),
    ],
)
def test_programs_that_do(line: str) -> None:
    assert takes_over_terminal(line.split())


@pytest.mark.parametrize(
    "line",
    [
        *("true", "python x.py", "python3 -m pytest", "python -c 1", "python -uc 1", "bash script", "bash -c ls"),
        *("bash -lc ls", "sh -ec ls", "env A=1 python x.py", "Rscript x.R", "R CMD BATCH x", "R -e 1", "node x.js"),
        *("julia x.jl", "psql -c 1 db", "psql --file=x", "mysql -e 1", "redis-cli get a", "docker run image"),
        *("vim --version", "vim -es -c wq x", "python --version", "make", "vimtutor-like", "sudo -n true", "env"),
    ],
)
def test_programs_that_do_not(line: str) -> None:
    assert not takes_over_terminal(line.split())


def test_no_command_does_not() -> None:
    assert not takes_over_terminal([])
    assert not takes_over_terminal([""])
