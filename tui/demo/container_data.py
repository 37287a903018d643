"""The containers of the simulated machine: two compose projects, one in trouble, on two engines."""

from __future__ import annotations

from collections.abc import Sequence
from types import MappingProxyType

from jobtop.core.measure.collectors.docker.model import ContainerLimits
from jobtop.core.record import fresh, record
from jobtop.tui.demo.demo_job import DAY, GIB, HOUR, MIB, LevelCurve

KIB = 1 << 10
DOCKER, PODMAN = "docker", "podman"
STEADY = LevelCurve("5655646556", 45)
NO_LIMITS = ContainerLimits()


@record
class DemoContainer:
    """One container: what it is, what it uses at the top of its curves, and what it writes."""

    name: str
    image: str
    command: str
    engine: str = DOCKER
    service: str | None = None
    project: str | None = None
    state: str = "running"
    health: str | None = None
    exit_code: int | None = None
    is_oom_killed: bool = False
    restarts: int = 0
    age: float = 3 * DAY
    cpu_percent: float = 1.0
    cpu_curve: LevelCurve = STEADY
    memory: float = 64 * MIB
    memory_curve: LevelCurve = LevelCurve("998999", 60)
    received: float = 0.0  # bytes a second
    sent: float = 0.0
    read: float = 0.0
    written: float = 0.0
    limits: ContainerLimits = NO_LIMITS
    processes: Sequence[tuple[int, str, float, float]] = ()  # depth, command, shares of CPU and memory
    threads: int = 1
    gpu_percent: float | None = None
    gpu_memory: float | None = None
    job: str | None = None  # the name of the demo job that it belongs to
    lines: Sequence[str] = ()
    seconds_per_line: float = 3.0
    events: Sequence[tuple[float, str, str | None]] = ()  # seconds ago, action, detail
    environment: Sequence[str] = ()
    attributes: MappingProxyType[str, str] = fresh(default_factory=lambda: MappingProxyType({}))


WEB = DemoContainer(
    "shop-web-1",
    "nginx:1.27-alpine",
    "nginx -g 'daemon off;'",
    service="web",
    project="shop",
    health="healthy",
    cpu_percent=14,
    cpu_curve=LevelCurve("3465768596473", 31),
    memory=38 * MIB,
    received=1.9 * MIB,
    sent=8.4 * MIB,
    limits=ContainerLimits(memory_bytes=256 * MIB, cpus=1.0),
    processes=(
        (0, "nginx: master process nginx -g daemon off;", 0.0, 0.2),
        (1, "nginx: worker process", 0.5, 0.4),
        (1, "nginx: worker process", 0.5, 0.4),
    ),
    threads=3,
    lines=(
        '10.0.3.{y} - - "GET /cart/{n} HTTP/1.1" 200 {x}',
        '10.0.3.{y} - - "GET /assets/app.js HTTP/1.1" 304 0',
        '10.0.3.{y} - - "POST /api/orders HTTP/1.1" 502 157',
    ),
    seconds_per_line=0.7,
)
API = DemoContainer(
    "shop-api-1",
    "ghcr.io/acme/shop-api:4.2.0",
    "gunicorn --workers 4 shop.wsgi",
    service="api",
    project="shop",
    health="unhealthy",
    restarts=2,
    age=5 * HOUR,
    cpu_percent=178,
    cpu_curve=LevelCurve("6879899789986", 26),
    memory=612 * MIB,
    received=740 * KIB,
    sent=1.2 * MIB,
    written=96 * KIB,
    limits=ContainerLimits(memory_bytes=1 * GIB, cpus=2.0, pids=128),
    processes=(
        (0, "gunicorn: master [shop.wsgi]", 0.01, 0.08),
        *((1, "gunicorn: worker [shop.wsgi]", 0.2475, 0.23),) * 4,
    ),
    threads=41,
    lines=(
        "INFO  request /api/orders/{n} 200 in {x} ms",
        "WARN  pool of database connections is full, waited {x} ms",
        "ERROR health check: /healthz took 5.{y} s",
    ),
    seconds_per_line=0.9,
    events=((560.0, "health_status", "unhealthy"),),
    environment=("SHOP_DATABASE_URL=postgres://shop:h4rd-to-guess@db/shop", "SECRET_KEY=9f8a7b6c5d4e", "WORKERS=4"),
)
DATABASE = DemoContainer(
    "shop-db-1",
    "postgres:16",
    "postgres -c shared_buffers=1GB",
    service="db",
    project="shop",
    health="healthy",
    age=9 * DAY,
    cpu_percent=64,
    cpu_curve=LevelCurve("2336899632", 38),
    memory=1.86 * GIB,
    memory_curve=LevelCurve("8889999999", 240, repeats=False),
    received=1.1 * MIB,
    sent=2.6 * MIB,
    read=11 * MIB,
    written=23 * MIB,
    limits=ContainerLimits(memory_bytes=2 * GIB, cpus=2.0),
    processes=(
        (0, "postgres -c shared_buffers=1GB", 0.02, 0.3),
        (1, "postgres: checkpointer", 0.05, 0.1),
        (1, "postgres: walwriter", 0.08, 0.05),
        (1, "postgres: shop shop 10.0.3.7 UPDATE", 0.55, 0.3),
        (1, "postgres: shop shop 10.0.3.7 idle", 0.3, 0.25),
    ),
    threads=9,
    lines=("LOG:  checkpoint complete: wrote {n} buffers", "LOG:  duration: {x}.{y} ms  statement: UPDATE stock SET …"),
    seconds_per_line=4.0,
    environment=("POSTGRES_PASSWORD=h4rd-to-guess", "POSTGRES_DB=shop", "PGDATA=/var/lib/postgresql/data"),
)
CACHE = DemoContainer(
    "shop-cache-1",
    "redis:7.4",
    "redis-server --maxmemory 200mb",
    service="cache",
    project="shop",
    age=9 * DAY,
    cpu_percent=6,
    memory=143 * MIB,
    received=310 * KIB,
    sent=290 * KIB,
    limits=ContainerLimits(memory_bytes=256 * MIB),
    processes=((0, "redis-server *:6379", 1.0, 1.0),),
    threads=6,
    lines=("1:M {n} changes in 60 seconds. Saving…", "1:M Background saving terminated with success"),
    seconds_per_line=9.0,
)
MAILER = DemoContainer(
    "shop-mailer-1",
    "ghcr.io/acme/shop-mailer:1.8.3",
    "node mailer.js",
    service="mailer",
    project="shop",
    state="restarting",
    restarts=17,
    exit_code=None,
    age=11.0,
    limits=ContainerLimits(memory_bytes=128 * MIB),
    lines=(
        "Error: connect ECONNREFUSED 10.0.3.12:25",
        "    at TCPConnectWrap.afterConnect [as oncomplete] (node:net:1611)",
    ),
    seconds_per_line=6.0,
    events=(
        (130.0, "die", None),
        (128.0, "start", None),
        (71.0, "die", None),
        (67.0, "start", None),
        (11.0, "die", None),
    ),
    attributes=MappingProxyType({"exitCode": "1"}),
)
PROMETHEUS = DemoContainer(
    "metrics-prometheus-1",
    "docker.io/prom/prometheus:v2.54",
    "prometheus --storage.tsdb.retention.time=30d",
    PODMAN,
    "prometheus",
    "metrics",
    age=21 * DAY,
    cpu_percent=23,
    cpu_curve=LevelCurve("1119311", 15),
    memory=1.1 * GIB,
    received=420 * KIB,
    sent=36 * KIB,
    written=3.4 * MIB,
    limits=ContainerLimits(memory_bytes=3 * GIB),
    processes=((0, "prometheus --storage.tsdb.retention.time=30d", 1.0, 1.0),),
    threads=17,
    lines=(
        'level=info component=tsdb msg="Head GC completed" duration={x}ms',
        'level=info msg="Compaction done" block={n}',
    ),
    seconds_per_line=12.0,
)
GRAFANA = DemoContainer(
    "metrics-grafana-1",
    "docker.io/grafana/grafana:11.2.0",
    "grafana server",
    PODMAN,
    "grafana",
    "metrics",
    health="healthy",
    age=21 * DAY,
    cpu_percent=2,
    memory=186 * MIB,
    received=12 * KIB,
    sent=88 * KIB,
    processes=((0, "grafana server", 1.0, 1.0),),
    threads=22,
    lines=('logger=context level=info msg="Request Completed" path=/api/live/ws status=200 duration={x}ms',),
    seconds_per_line=5.0,
)
FINETUNE = DemoContainer(
    "jobtop-llm-finetune",
    "pytorch/pytorch:2.4.1-cuda12.4",
    "torchrun --nproc-per-node 1 finetune.py --model llama-8b",
    age=35 * 60.0,
    cpu_percent=91,
    cpu_curve=LevelCurve("8898889888887888756", 40),
    memory=4.4 * GIB,
    read=9 * MIB,
    limits=ContainerLimits(memory_bytes=16 * GIB, cpus=2.0),
    processes=(
        (0, "torchrun --nproc-per-node 1 finetune.py", 0.02, 0.1),
        (1, "python finetune.py --model llama-8b", 0.98, 0.9),
    ),
    threads=42,
    gpu_percent=88,
    gpu_memory=19.2 * GIB,
    job="llm-finetune",
    lines=("step {n}/12000  loss 1.{y}  lr 2.0e-04  {x} tok/s",),
    seconds_per_line=2.0,
)
BACKUP = DemoContainer(
    "nightly-backup",
    "restic/restic:0.17.1",
    "restic backup /data",
    state="paused",
    age=4 * HOUR,
    cpu_percent=0.0,
    memory=302 * MIB,
    processes=((0, "restic backup /data", 0.0, 1.0),),
    threads=12,
    lines=("processed {n} files, {x}.{y} GiB in 0:41",),
    seconds_per_line=60.0,
    events=((2600.0, "pause", None),),
)
MIGRATE = DemoContainer(
    "shop-migrate-1",
    "ghcr.io/acme/shop-api:4.2.0",
    "python manage.py migrate",
    service="migrate",
    project="shop",
    state="exited",
    exit_code=0,
    age=5 * HOUR,
    lines=("Applying orders.0043_status… OK",),
    seconds_per_line=3600.0,
)
IMPORTER = DemoContainer(
    "catalog-import",
    "ghcr.io/acme/importer:0.9",
    "python -m importer --all",
    state="exited",
    exit_code=137,
    is_oom_killed=True,
    age=2 * HOUR,
    limits=ContainerLimits(memory_bytes=512 * MIB),
    lines=("imported {n} products",),
    seconds_per_line=900.0,
    events=((7201.0, "oom", None), (7200.0, "die", None)),
    attributes=MappingProxyType({"exitCode": "137"}),
)
CONTAINERS = (
    *(WEB, API, DATABASE, CACHE, MAILER, PROMETHEUS, GRAFANA, FINETUNE, BACKUP),
    *(MIGRATE, IMPORTER),
)
