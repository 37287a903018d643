"""The examples of docs/python.md, in one program. It needs train.py in the current directory."""

import jobtop

job = jobtop.run(["python", "train.py"], memory="8G", params={"lr": 0.1}, tags=["nightly"])
print(job.status, job.duration_seconds, job.resource_usage.memory_peak_bytes)

version = jobtop.run(["python", "--version"], capture_output=True, check=True)
print(version.stdout)

try:
    jobtop.run(["python", "train.py", "--fail"], check=True, timeout="10m")
except jobtop.JobFailed as failure:
    print(failure.job.status, failure.job.exit_code, failure.job.reason)
except jobtop.StartError as error:
    print(error)

background = jobtop.run(["python", "train.py"], detach=True, name="background")
print(background.id, background.record().status)
print(background.wait(timeout=600).status)

first = jobtop.submit(["python", "train.py"], cpus=1, memory="64M", retries=2)
second = jobtop.submit(["python", "train.py"], after=[first], group="training")
second.wait(check=True)

with jobtop.track("etl", params={"rows": 1000}) as block:
    rows = [number**2 for number in range(1000)]
if block.record is not None:
    print(block.record["resource_usage"]["cpu_total_seconds"])


@jobtop.track
def load() -> list[int]:
    return list(range(1000))


load()

store = jobtop.open_store()
for job in store.jobs("status:failed since:7d"):
    print(job.name, job.reason)

with jobtop.open_store() as store:
    job = store.job("last:success")
    series = store.series(job, ["cpu.percent", "mem.used"], max_points=100)
    print(series.elapsed[-1], max(value or 0 for value in series["mem.used"]))
    print(store.logs("background"))
    print(store.stats("tag:nightly")["success_rate"])
