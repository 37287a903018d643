"""Makes the pictures of docs/plots.md from real jobs and a real Chromium: screenshots/plot-job.png, plot-report.png.

As root, which the enforced limit needs: `.venv/bin/python -m tools.plot_pictures`. Look at them before committing.
"""

import os
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
TRAIN = """
import os, time
from multiprocessing import Process

def work(seconds):
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        sum(range(10_000))

data = []
for epoch in range(5):
    workers = [Process(target=work, args=(2.0,)) for _ in range(2)]
    [worker.start() for worker in workers]
    [worker.join() for worker in workers]
    data.append(bytearray(os.urandom(1 << 20)) * 45)
    work(0.6)
    time.sleep(0.8)
"""
HUNGRY = """
import time
rows = []
while True:
    rows.append(bytearray(6 << 20))
    time.sleep(0.12)
"""
JOBS = (
    ("prepare", (), "import time; x = [list(range(300_000)) for _ in range(20)]; time.sleep(2.5); sum(map(sum, x))"),
    ("train", ("--memory", "300M", "--cpus", "2", "--runtime", "15s"), TRAIN),
    ("evaluate", ("--memory", "150M", "--enforce"), HUNGRY),
)
PICTURES = (("plot-job", "resource_plot_job_2.html", 1100, 860), ("plot-report", "report.html", 1100, 1500))


def main() -> int:
    sys.path.insert(0, str(ROOT / "tests"))
    from browser import chromium

    with tempfile.TemporaryDirectory() as home:
        env = os.environ | {"JOBTOP_HOME": f"{home}/state", "JOBTOP_AGENT_IDLE": "0s", "TZ": "UTC"}
        jobtop = [sys.executable, "-m", "jobtop"]
        for name, limits, script in JOBS:
            (Path(home) / f"{name}.py").write_text(script, encoding="utf-8")
            words = ["run", "--no-ui", "--interval", "0.3s", "--name", name, "--tag", "wf=1", *limits, "--", "python3"]
            subprocess.run([*jobtop, *words, f"{name}.py"], env=env, cwd=home, check=False)
        pages = Path(home) / "pages"
        prices = ("--set", "cost.watts_per_core=8", "--set", "cost.kwh=0.30")
        subprocess.run([*jobtop, *prices, "plot", "tag:wf=1", "--html", "-o", pages], env=env, cwd=home, check=True)
        with chromium() as browser:
            for picture, page, width, height in PICTURES:
                browser.resize(width, height)
                browser.open((pages / page).as_uri())
                browser.picture(ROOT / "screenshots" / f"{picture}.png")
    return 0


if __name__ == "__main__":
    sys.exit(main())
