"""Who plays in `--demo`: the jobs of a lively machine, what each does with it, and how earlier runs ended."""

from __future__ import annotations

from enum import StrEnum

from jobtop.core.model import Limits
from jobtop.core.record import fresh, record, replace

KIB, MIB, GIB = 1 << 10, 1 << 20, 1 << 30
HOUR, DAY = 3600.0, 86400.0
NO_LIMITS = Limits()


@record
class Curve:
    """Levels 0 to 9 over some seconds, over and over or once; between them it goes straight."""

    levels: str
    seconds: float
    repeats: bool = True

    def at(self, moment: float) -> float:
        """0.0 to 1.0."""
        last = len(self.levels) - 1
        turns = moment / self.seconds
        place = (turns % 1.0 if self.repeats else min(turns, 1.0)) * last
        left = int(place)
        low, high = int(self.levels[left]), int(self.levels[min(left + 1, last)])
        return (low + (high - low) * (place - left)) / 9


@record
class Member:
    """A process of a job, or several alike: its depth in the tree, and its share of what the job uses."""

    command: str
    depth: int = 0
    cpu: float = 1.0
    memory: float = 1.0
    threads: int = 1
    count: int = 1


@record
class Part:
    """A kind of job: the cores and bytes it uses at the height of its curves, and what it says meanwhile."""

    name: str
    command: str
    tool: str
    cores: float
    memory: float
    busy: Curve = Curve("88", 60)
    holds: Curve = Curve("599999", 120, repeats=False)
    restless: float = 0.05
    reads: float = 0.0
    writes: float = 0.0
    gpu: int | None = None
    gpu_percent: float = 0.0
    gpu_memory: float = 0.0
    limits: Limits = NO_LIMITS
    flags: tuple[str, ...] = ()
    tags: dict[str, str] = fresh(default_factory=dict)
    params: dict[str, object] = fresh(default_factory=dict)
    members: tuple[Member, ...] = ()
    says: tuple[str, ...] = ()
    wails: tuple[str, ...] = ()
    seconds_per_line: float = 2.0
    alerts: tuple[tuple[float, str, str], ...] = ()

    @property
    def tree(self) -> tuple[Member, ...]:
        return self.members or (Member(self.command),)


class End(StrEnum):
    """How a run ended, as the letters of `Family.ends`."""

    SUCCESS = "s"
    FAILED = "f"
    CRASHED = "k"
    OOM = "o"
    TIMEOUT = "t"
    CANCELLED = "c"
    LOST = "l"
    ERROR = "e"


@record
class Family:
    """The earlier runs of a part: how many, how far apart, how long, and how the newest ended, and those before."""

    part: Part
    runs: int
    every: float
    seconds: float
    ends: str = "s"
    spread: float = 0.15
    trend: float = 0.0
    newest: float = HOUR
    tried: dict[str, tuple[object, ...]] = fresh(default_factory=dict)  # params, one value after the other

    def part_of(self, place: int) -> Part:
        """The part as it was that many runs ago."""
        chosen = {name: values[place % len(values)] for name, values in self.tried.items()}
        command = self.part.command
        for name, value in chosen.items():
            command = command.replace(f"--{name} {self.part.params[name]}", f"--{name} {value}")
        return replace(self.part, command=command, params=self.part.params | chosen)


FINETUNE = Part(
    "llm-finetune",
    "torchrun --nproc-per-node 1 finetune.py --model llama-8b --rank 16 --lr 2e-4",
    "pytorch",
    cores=1.02,
    memory=6.6 * GIB,
    busy=Curve("8898889888887888756", 40),
    holds=Curve("357788888999", 900, repeats=False),
    reads=9 * MIB,
    gpu=0,
    gpu_percent=88,
    gpu_memory=19.2 * GIB,
    limits=Limits(cpus=2, memory_bytes=16 * GIB, gpus=1, runtime_seconds=6 * HOUR),
    tags={"project": "chat", "team": "nlp"},
    params={"lr": 2e-4, "rank": 16, "epochs": 3},
    members=(
        Member("torchrun --nproc-per-node 1 finetune.py", 0, 0.01, 0.02, 4),
        Member("python finetune.py --model llama-8b", 1, 0.85, 0.8, 38),
        Member("pt_data_worker", 2, 0.07, 0.09, 2, 2),
    ),
    says=(
        "step {n:>5}/12000  loss {falling:.4f}  lr 2.0e-04  {x:.0f} tok/s",
        "step {n:>5}/12000  loss {falling:.4f}  grad {y:.2f}",
    ),
    seconds_per_line=3.0,
    alerts=((1260.0, "info", "GPU 0 at 84 °C"),),
)
RESNET = Part(
    "train-resnet50",
    "python train.py --arch resnet50 --batch 256 --lr 0.1 --workers 4",
    "pytorch",
    cores=2.2,
    memory=5.2 * GIB,
    busy=Curve("8998899889984", 22),
    restless=0.04,
    reads=72 * MIB,
    gpu=1,
    gpu_percent=97,
    gpu_memory=14.6 * GIB,
    limits=Limits(cpus=4, memory_bytes=12 * GIB, gpus=1),
    tags={"project": "vision", "team": "cv"},
    params={"lr": 0.1, "batch": 256, "arch": "resnet50"},
    members=(
        Member("python train.py --arch resnet50 --batch 256", 0, 0.28, 0.36, 41),
        Member("pt_data_worker", 1, 0.18, 0.16, 2, 4),
    ),
    says=("epoch 1 [{n:>4}/5005]  loss {falling:.3f}  top1 {rising:.1f}  {x:.0f} img/s",),
    wails=(
        "Traceback (most recent call last):",
        '  File "train.py", line 184, in <module>',
        "    loss.backward()",
        "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 1.53 GiB.",
    ),
    seconds_per_line=1.0,
)
BLAST = Part(
    "blast-orfs",
    "blastp -query orfs.faa -db nr -evalue 1e-5 -num_threads 2 -outfmt 6 -out orfs.tsv",
    "blast",
    cores=1.5,
    memory=3.4 * GIB,
    busy=Curve("6898897895688", 44),
    restless=0.03,
    reads=19 * MIB,
    limits=Limits(cpus=2, memory_bytes=8 * GIB),
    tags={"project": "meta", "sample": "S14"},
    members=(Member("blastp -query orfs.faa -db nr -num_threads 2", 0, 1, 1, 5),),
    says=("# BLASTP 2.15.0+  query {n:>5} of 18204  {x:.0f} hits",),
    wails=("BLAST Database error: No alias or index file found for protein database [nr]",),
)
SPARK = Part(
    "spark-shuffle",
    "spark-submit --master local[8] --driver-memory 6g shuffle_join.py /data/events/2026-03",
    "spark",
    cores=0.99,
    memory=5.9 * GIB,
    busy=Curve("9999999699999", 50),
    holds=Curve("23456789923456789", 140),
    restless=0.02,
    reads=14 * MIB,
    writes=22 * MIB,
    limits=Limits(cpus=1, memory_bytes=8 * GIB, enforced=True),
    flags=("throttled",),
    tags={"project": "events"},
    members=(
        Member("java -Xmx6g org.apache.spark.deploy.SparkSubmit shuffle_join.py", 0, 0.93, 0.9, 94),
        Member("python shuffle_join.py /data/events/2026-03", 1, 0.05, 0.06, 3),
        Member("python -m pyspark.daemon", 1, 0.02, 0.04),
    ),
    says=(
        "INFO TaskSetManager: Finished task {n}.0 in stage 7.0 in {x:.0f} ms",
        "INFO ShuffleBlockFetcher: {n} blocks",
    ),
    alerts=((1580.0, "warning", "CPU throttled 31 % of the time"),),
)
BUILD = Part(
    "make -j16",
    "make -j16 vmlinux modules",
    "make",
    cores=1.8,
    memory=2.6 * GIB,
    busy=Curve("29989399893998959", 46),
    holds=Curve("56787677878767", 27),
    restless=0.16,
    reads=6 * MIB,
    writes=24 * MIB,
    limits=Limits(cpus=4),
    tags={"branch": "main"},
    members=(
        Member("make -j16 vmlinux modules", 0, 0.02, 0.02),
        Member("make -f ./scripts/Makefile.build obj=drivers", 1, 0.01, 0.01),
        Member("cc1 -O2 -quiet -Wall drivers/net/core.c", 2, 0.0625, 0.06, 1, 12),
        Member("as --64 -o drivers/net/core.o", 2, 0.05, 0.02, 1, 3),
    ),
    says=(
        "  CC      drivers/net/ethernet/intel/e{n}.o",
        "  CC [M]  fs/ext4/part-{n}.o",
        "  LD [M]  drivers/gpu/{n}.ko",
    ),
    wails=("drivers/net/core.c:412:9: error: implicit declaration of function 'skb_free'", "make: *** Error 2"),
    seconds_per_line=0.7,
)
PYTEST = Part(
    "pytest -n8",
    "pytest -n8 --cov tests/integration",
    "pytest",
    cores=1.2,
    memory=1.5 * GIB,
    busy=Curve("29891899279385", 38),
    holds=Curve("5677877687", 90),
    restless=0.12,
    reads=2 * MIB,
    writes=4 * MIB,
    limits=Limits(cpus=2, memory_bytes=4 * GIB, timeout_seconds=1800),
    tags={"branch": "main", "ci": "nightly"},
    members=(
        Member("pytest -n8 --cov tests/integration", 0, 0.06, 0.12, 9),
        Member("python -m execnet.gateway_base", 1, 0.11, 0.1, 3, 8),
    ),
    says=(
        "[gw{small}] PASSED tests/integration/test_{n}.py::test_roundtrip",
        "[gw{small}] PASSED tests/test_api.py::test_{n}",
    ),
    wails=(
        "E       AssertionError: assert 503 == 200",
        "FAILED tests/integration/test_orders.py::test_refund - AssertionError",
        "======== 1 failed, 412 passed in 184.20s ========",
    ),
)
FFMPEG = Part(
    "ffmpeg-4k",
    "ffmpeg -i keynote.mov -c:v libx265 -preset slow -crf 20 keynote-4k.mkv",
    "ffmpeg",
    cores=0.95,
    memory=3.72 * GIB,
    busy=Curve("79897988698979", 28),
    holds=Curve("4567788899", 430, repeats=False),
    restless=0.05,
    reads=11 * MIB,
    writes=3 * MIB,
    limits=Limits(cpus=1, memory_bytes=4 * GIB),
    tags={"project": "media"},
    members=(Member("ffmpeg -i keynote.mov -c:v libx265 -crf 20", 0, 1, 1, 34),),
    says=("frame={n:>6} fps= 22 q=27.3 size={n}kB speed=0.{small}8x",),
    alerts=((402.0, "critical", "memory 92 % of its limit"),),
)
ETL = Part(
    "nightly-etl",
    "python -m warehouse.etl --full --target reporting",
    "python",
    cores=0.8,
    memory=2.9 * GIB,
    busy=Curve("11899211489318", 33),
    holds=Curve("2345678999", 1100, repeats=False),
    reads=28 * MIB,
    writes=9 * MIB,
    limits=Limits(cpus=1, memory_bytes=8 * GIB, runtime_seconds=HOUR),
    tags={"schedule": "nightly"},
    params={"target": "reporting", "chunk": 50000},
    members=(
        Member("python -m warehouse.etl --full --target reporting", 0, 0.9, 0.93, 6),
        Member("psql -h db1 -c COPY staging.events FROM STDIN", 1, 0.1, 0.07),
    ),
    says=("loaded {n} of 31200 partitions ({x:.0f} rows/s)", "merge into reporting.daily: chunk {n}"),
    wails=("psycopg.errors.DeadlockDetected: deadlock detected", "DETAIL: Process 8814 waits for ShareLock"),
    alerts=((610.0, "warning", "I/O pressure 22 %"),),
)
RENDER = Part(
    "render-frames",
    "blender -b lobby.blend -o //out/f_##### -s 240 -e 480 -a",
    "blender",
    cores=0.62,
    memory=2.3 * GIB,
    busy=Curve("999999199999928", 37),
    limits=Limits(cpus=1, memory_bytes=12 * GIB),
    tags={"project": "media"},
    members=(Member("blender -b lobby.blend -s 240 -e 480 -a", 0, 1, 1, 19),),
    says=("Fra:{n} Mem:2210.4M | Time:00:0{small}.41 | Rendered {small}2/64 tiles",),
)
PG_DUMP = Part(
    "pg_dump prod",
    "pg_dump -h db1 -Fd -j 4 -f /backup/prod.dir prod",
    "postgres",
    cores=0.44,
    memory=310 * MIB,
    busy=Curve("57876734687968", 29),
    reads=3 * MIB,
    writes=114 * MIB,
    tags={"schedule": "nightly"},
    members=(
        Member("pg_dump -h db1 -Fd -j 4 prod", 0, 0.04, 0.2),
        Member("pg_dump: worker", 1, 0.24, 0.2, 1, 4),
    ),
    says=('pg_dump: dumping contents of table "public.orders_{n}"',),
    wails=("pg_dump: error: query failed: SSL connection has been closed unexpectedly",),
)
RSYNC = Part(
    "rsync /data",
    "rsync -aH --info=progress2 /data/ nas:/tank/data/",
    "rsync",
    cores=0.26,
    memory=155 * MIB,
    busy=Curve("3578964378583", 31),
    reads=86 * MIB,
    tags={"schedule": "nightly"},
    members=(
        Member("rsync -aH --info=progress2 /data/ nas:/tank/data/", 0, 0.6, 0.6),
        Member("ssh nas rsync --server -logDtpre.iLsfxCIvu", 1, 0.4, 0.4),
    ),
    says=("{n},412,{small}88  4{small}%   81.22MB/s    0:1{small}:07",),
    wails=(
        "rsync: connection unexpectedly closed (18441 bytes received so far) [sender]",
        "rsync error: error in rsync",
    ),
)
BWA = Part(
    "bwa-mem S14",
    "bwa mem -t 1 hg38.fa S14_R1.fastq.gz S14_R2.fastq.gz",
    "bwa",
    cores=0.9,
    memory=4.4 * GIB,
    busy=Curve("8988998489989", 33),
    reads=24 * MIB,
    writes=16 * MIB,
    limits=Limits(cpus=1, memory_bytes=8 * GIB),
    tags={"project": "meta", "sample": "S14"},
    says=("[M::mem_process_seqs] Processed {n}44 reads in {x:.3f} CPU sec",),
    wails=("[E::bwa_idx_load_from_disk] fail to locate the index files",),
)
NEXTFLOW = Part(
    "variant-calling",
    "nextflow run nf-core/sarek -profile local --input samples.csv",
    "nextflow",
    cores=0.08,
    memory=640 * MIB,
    busy=Curve("2232923", 45),
    tags={"project": "meta"},
    members=(Member("java -jar nextflow.jar run nf-core/sarek", 0, 1, 1, 61),),
    says=("[{small}e/88ab1{n}] process > BWA_MEM (S{small}) [ 4{small}%] {small} of 16",),
)
JUPYTER = Part(
    "jupyter-lab",
    "jupyter lab --no-browser --port 8891",
    "jupyter",
    cores=0.05,
    memory=1.9 * GIB,
    busy=Curve("0010020001090000", 64),
    tags={"owner": "ada"},
    members=(
        Member("jupyter-lab --no-browser --port 8891", 0, 0.3, 0.1, 2),
        Member("python -m ipykernel_launcher -f kernel-7f.json", 1, 0.7, 0.45, 14, 2),
    ),
    says=("[I ServerApp] Saving file at /notebooks/churn-{small}.ipynb",),
    seconds_per_line=20.0,
)
DOCS = Part(
    "docs-preview",
    "mkdocs serve -a 0.0.0.0:8000",
    "mkdocs",
    cores=0.02,
    memory=88 * MIB,
    busy=Curve("00100900", 80),
    says=("INFO    -  [GET] /guide/part-{n}/ 200",),
    seconds_per_line=9.0,
)
MDRUN = Part(
    "gromacs-md",
    "gmx mdrun -deffnm npt -ntomp 6 -nsteps 5000000",
    "gromacs",
    cores=5.6,
    memory=780 * MIB,
    limits=Limits(cpus=6, memory_bytes=2 * GIB),
    tags={"project": "folding"},
    members=(Member("gmx mdrun -deffnm npt -ntomp 6", 0, 1, 1, 7),),
    says=("           Step           Time\n        {n}000      {n}.00000",),
)
SWEEP = Part(
    "hyper-sweep",
    "python sweep.py --trial 14 --space xgb.json",
    "python",
    cores=2.0,
    memory=2.8 * GIB,
    holds=Curve("2345679", 200, repeats=False),
    limits=Limits(cpus=2, memory_bytes=3 * GIB, timeout_seconds=900),
    tags={"project": "churn"},
    params={"depth": 8, "eta": 0.05},
    says=("[{n}] train-auc:0.9{small}1  valid-auc:0.8{small}7",),
)
NUMPY = Part(
    "numpy-bench",
    "python bench.py --size 40000",
    "python",
    cores=3.8,
    memory=8 * GIB,
    holds=Curve("0123456789", 400, repeats=False),
    limits=Limits(cpus=4, memory_bytes=8 * GIB, enforced=True),
    tags={"project": "perf"},
    says=("matmul {n}: {x:.1f} GFLOP/s",),
)
LINT = Part("lint", "ruff check src tests", "ruff", cores=1.4, memory=120 * MIB, says=("All checks passed!",))
UNIT = Part(
    "unit-tests",
    "pytest -q tests/unit",
    "pytest",
    cores=0.9,
    memory=240 * MIB,
    busy=Curve("5898798", 12),
    limits=Limits(memory_bytes=1 * GIB),
    tags={"branch": "main"},
    says=("tests/unit/test_{n}.py ........................ [ {small}2%]",),
    wails=("FAILED tests/unit/test_prices.py::test_rounding - assert 0.30000000000000004 == 0.3",),
)
SITE = Part("build-site", "hugo --minify", "hugo", cores=1.2, memory=310 * MIB, says=("Total in {x:.0f} ms",))
BACKUP = Part(
    "backup-home",
    "restic backup /home --exclude-caches",
    "restic",
    cores=0.7,
    memory=420 * MIB,
    reads=60 * MIB,
    writes=12 * MIB,
    tags={"schedule": "nightly"},
    says=("[0:{small}4] {small}1.20%  {n} files, ETA 1:0{small}",),
)
KAFKA = Part(
    "ingest-kafka",
    "python ingest.py --topic clicks --until now",
    "python",
    cores=0.6,
    memory=1.9 * GIB,
    writes=18 * MIB,
    tags={"project": "events"},
    says=("offset {n}9120 lag {small}2",),
)

RUNNING: tuple[tuple[Part, float], ...] = (
    (RESNET, 277.0),
    (BLAST, 1681.0),
    (SPARK, 2914.0),
    (BUILD, 341.0),
    (FFMPEG, 448.0),
    (PYTEST, 859.0),
    (FINETUNE, 2092.0),
    (BWA, 1214.0),
    (RENDER, 3325.0),
    (ETL, 1270.0),
    (PG_DUMP, 3736.0),
    (RSYNC, 517.0),
    (NEXTFLOW, 1310.0),
    (JUPYTER, 2.2 * DAY),
    (DOCS, 4.1 * HOUR),
)
PAUSED: tuple[tuple[Part, float], ...] = ((MDRUN, 2.7 * HOUR),)
QUEUED: tuple[tuple[Part, float], ...] = ((SWEEP, 211.0), (RENDER, 95.0), (BACKUP, 12.0))
CHILDREN = {BWA.name: NEXTFLOW.name}
SHORT = (UNIT, LINT, SITE)  # these come and go while one looks

FAMILIES: tuple[Family, ...] = (
    Family(ETL, 41, DAY, 1900, "sssssssfssssssssss", trend=0.6, newest=DAY - 1270),
    Family(BACKUP, 38, DAY, 1400, "ssssssssscssssss", trend=0.2, newest=9.6 * HOUR),
    Family(PG_DUMP, 40, DAY, 3900, "sssssssssssssfss", trend=0.15, newest=DAY - 3736),
    Family(RSYNC, 30, DAY, 2600, "fsssssssslsss", newest=1.2 * HOUR),
    Family(UNIT, 62, 9.1 * HOUR, 34, "sfsssssssfssss", newest=0.3 * HOUR),
    Family(PYTEST, 28, 21 * HOUR, 1150, "sssfsssstss", newest=5.2 * HOUR),
    Family(
        RESNET,
        14,
        31 * HOUR,
        5400,
        "sfssksss",
        newest=3.1 * HOUR,
        tried={"lr": (0.1, 0.05, 0.2, 0.4), "batch": (256, 256, 128)},
    ),
    Family(NUMPY, 6, 47 * HOUR, 410, "osos", newest=1.4 * HOUR),
    Family(SWEEP, 17, 13 * HOUR, 880, "tsssostss", newest=2.1 * HOUR),
    Family(BLAST, 13, 50 * HOUR, 6200, "essfss", newest=4.4 * HOUR),
    Family(BWA, 16, 37 * HOUR, 3100, "ssslss", newest=6.5 * HOUR),
    Family(BUILD, 12, 60 * HOUR, 1240, "cssfs", newest=2.6 * HOUR),
    Family(KAFKA, 19, 44 * HOUR, 5400, "ss", newest=1.6 * HOUR),
    Family(SITE, 24, 23 * HOUR, 9, "s", newest=0.7 * HOUR),
    Family(LINT, 31, 17 * HOUR, 6, "ssfs", newest=0.5 * HOUR),
)
