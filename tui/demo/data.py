"""The jobs of the simulated machine: what each one uses, and how its earlier runs ended."""

from jobtop.core.model import Limits, Queued
from jobtop.tui.demo.demo_job import DAY, GIB, HOUR, MIB, DemoAlert, DemoJob, DemoProcess, EarlierRuns, LevelCurve

FINETUNE = DemoJob(
    "llm-finetune",
    "torchrun --nproc-per-node 1 finetune.py --model llama-8b --rank 16 --lr 2e-4",
    "pytorch",
    cores=1.02,
    memory=6.6 * GIB,
    cpu_curve=LevelCurve("8898889888887888756", 40),
    memory_curve=LevelCurve("357788888999", 900, repeats=False),
    read_rate=9 * MIB,
    gpu=0,
    gpu_percent=88,
    gpu_memory=19.2 * GIB,
    limits=Limits(cpus=2, memory_bytes=16 * GIB, gpus=1, runtime_seconds=6 * HOUR),
    tags={"project": "chat", "team": "nlp"},
    params={"lr": 2e-4, "rank": 16, "epochs": 3},
    processes=(
        DemoProcess("torchrun --nproc-per-node 1 finetune.py", 0, 0.01, 0.02, 4),
        DemoProcess("python finetune.py --model llama-8b", 1, 0.85, 0.8, 38),
        DemoProcess("pt_data_worker", 2, 0.07, 0.09, 2, 2),
    ),
    output_lines=(
        "step {n:>5}/12000  loss {falling:.4f}  lr 2.0e-04  {x:.0f} tok/s",
        "step {n:>5}/12000  loss {falling:.4f}  grad {y:.2f}",
    ),
    seconds_per_line=3.0,
    alerts=(DemoAlert(620.0, "gpu-underused", "GPU load 38 % below 50 % for 5m00s", 38.0, lasts=412.0),),
)
RESNET = DemoJob(
    "train-resnet50",
    "python train.py --arch resnet50 --batch 256 --lr 0.1 --workers 4",
    "pytorch",
    cores=2.2,
    memory=5.2 * GIB,
    cpu_curve=LevelCurve("8998899889984", 22),
    noise=0.04,
    read_rate=72 * MIB,
    gpu=1,
    gpu_percent=97,
    gpu_memory=14.6 * GIB,
    limits=Limits(cpus=4, memory_bytes=12 * GIB, gpus=1),
    tags={"project": "vision", "team": "cv"},
    params={"lr": 0.1, "batch": 256, "arch": "resnet50"},
    processes=(
        DemoProcess("python train.py --arch resnet50 --batch 256", 0, 0.28, 0.36, 41),
        DemoProcess("pt_data_worker", 1, 0.18, 0.16, 2, 4),
    ),
    output_lines=("epoch 1 [{n:>4}/5005]  loss {falling:.3f}  top1 {rising:.1f}  {x:.0f} img/s",),
    error_lines=(
        "Traceback (most recent call last):",
        '  File "train.py", line 184, in <module>',
        "    loss.backward()",
        "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 1.53 GiB.",
    ),
    seconds_per_line=1.0,
)
BLAST = DemoJob(
    "blast-orfs",
    "blastp -query orfs.faa -db nr -evalue 1e-5 -num_threads 2 -outfmt 6 -out orfs.tsv",
    "blast",
    cores=1.5,
    memory=3.4 * GIB,
    cpu_curve=LevelCurve("6898897895688", 44),
    noise=0.03,
    read_rate=19 * MIB,
    limits=Limits(cpus=2, memory_bytes=8 * GIB),
    tags={"project": "meta", "sample": "S14"},
    processes=(DemoProcess("blastp -query orfs.faa -db nr -num_threads 2", 0, 1, 1, 5),),
    output_lines=("# BLASTP 2.15.0+  query {n:>5} of 18204  {x:.0f} hits",),
    error_lines=("BLAST Database error: No alias or index file found for protein database [nr]",),
)
SPARK = DemoJob(
    "spark-shuffle",
    "spark-submit --master local[8] --driver-memory 6g shuffle_join.py /data/events/2026-03",
    "spark",
    cores=0.99,
    memory=5.9 * GIB,
    cpu_curve=LevelCurve("9999999699999", 50),
    memory_curve=LevelCurve("23456789923456789", 140),
    noise=0.02,
    read_rate=14 * MIB,
    write_rate=22 * MIB,
    limits=Limits(cpus=1, memory_bytes=8 * GIB, enforced=True),
    flags=("throttled",),
    tags={"project": "events"},
    processes=(
        DemoProcess("java -Xmx6g org.apache.spark.deploy.SparkSubmit shuffle_join.py", 0, 0.93, 0.9, 94),
        DemoProcess("python shuffle_join.py /data/events/2026-03", 1, 0.05, 0.06, 3),
        DemoProcess("python -m pyspark.daemon", 1, 0.02, 0.04),
    ),
    output_lines=(
        "INFO TaskSetManager: Finished task {n}.0 in stage 7.0 in {x:.0f} ms",
        "INFO ShuffleBlockFetcher: {n} blocks",
    ),
    alerts=(
        DemoAlert(
            *(1580.0, "cpu-throttled", "throttled by its CPU limit 31.0 % above 25.0 % for 1m00s", 0.31),
            is_acknowledged=True,
        ),
    ),
)
BUILD = DemoJob(
    "make -j16",
    "make -j16 vmlinux modules",
    "make",
    cores=1.8,
    memory=2.6 * GIB,
    cpu_curve=LevelCurve("29989399893998959", 46),
    memory_curve=LevelCurve("56787677878767", 27),
    noise=0.16,
    read_rate=6 * MIB,
    write_rate=24 * MIB,
    limits=Limits(cpus=4),
    tags={"branch": "main"},
    processes=(
        DemoProcess("make -j16 vmlinux modules", 0, 0.02, 0.02),
        DemoProcess("make -f ./scripts/Makefile.build obj=drivers", 1, 0.01, 0.01),
        DemoProcess("cc1 -O2 -quiet -Wall drivers/net/core.c", 2, 0.0625, 0.06, 1, 12),
        DemoProcess("as --64 -o drivers/net/core.o", 2, 0.05, 0.02, 1, 3),
    ),
    output_lines=(
        "  CC      drivers/net/ethernet/intel/e{n}.o",
        "  CC [M]  fs/ext4/part-{n}.o",
        "  LD [M]  drivers/gpu/{n}.ko",
    ),
    error_lines=("drivers/net/core.c:412:9: error: implicit declaration of function 'skb_free'", "make: *** Error 2"),
    seconds_per_line=0.7,
)
PYTEST = DemoJob(
    "pytest -n8",
    "pytest -n8 --cov tests/integration",
    "pytest",
    cores=1.2,
    memory=1.5 * GIB,
    cpu_curve=LevelCurve("29891899279385", 38),
    memory_curve=LevelCurve("5677877687", 90),
    noise=0.12,
    read_rate=2 * MIB,
    write_rate=4 * MIB,
    limits=Limits(cpus=2, memory_bytes=4 * GIB, timeout_seconds=1800),
    tags={"branch": "main", "ci": "nightly"},
    processes=(
        DemoProcess("pytest -n8 --cov tests/integration", 0, 0.06, 0.12, 9),
        DemoProcess("python -m execnet.gateway_base", 1, 0.11, 0.1, 3, 8),
    ),
    output_lines=(
        "[gw{small}] PASSED tests/integration/test_{n}.py::test_roundtrip",
        "[gw{small}] PASSED tests/test_api.py::test_{n}",
    ),
    error_lines=(
        "E       AssertionError: assert 503 == 200",
        "FAILED tests/integration/test_orders.py::test_refund - AssertionError",
        "======== 1 failed, 412 passed in 184.20s ========",
    ),
)
FFMPEG = DemoJob(
    "ffmpeg-4k",
    "ffmpeg -i keynote.mov -c:v libx265 -preset slow -crf 20 keynote-4k.mkv",
    "ffmpeg",
    cores=0.95,
    memory=3.72 * GIB,
    cpu_curve=LevelCurve("79897988698979", 28),
    memory_curve=LevelCurve("4567788899", 430, repeats=False),
    noise=0.05,
    read_rate=11 * MIB,
    write_rate=3 * MIB,
    limits=Limits(cpus=1, memory_bytes=4 * GIB),
    tags={"project": "media"},
    processes=(DemoProcess("ffmpeg -i keynote.mov -c:v libx265 -crf 20", 0, 1, 1, 34),),
    output_lines=("frame={n:>6} fps= 22 q=27.3 size={n}kB speed=0.{small}8x",),
    alerts=(
        DemoAlert(
            *(236.0, "memory-limit-soon", "reaches its limit of 4.0 GiB in about 7 min at +4.6 MiB/s", 2.1 * GIB),
            lasts=166.0,
        ),
        DemoAlert(402.0, "job-memory-limit", "memory 91.6 % of its limit (3.7 of 4.0 GiB) for 10s", 0.916),
    ),
)
ETL = DemoJob(
    "nightly-etl",
    "python -m warehouse.etl --full --target reporting",
    "python",
    cores=0.8,
    memory=2.9 * GIB,
    cpu_curve=LevelCurve("11899211489318", 33),
    memory_curve=LevelCurve("2345678999", 1100, repeats=False),
    read_rate=28 * MIB,
    write_rate=9 * MIB,
    limits=Limits(cpus=1, memory_bytes=8 * GIB, runtime_seconds=HOUR),
    tags={"schedule": "nightly"},
    queue=Queued(group="nightly"),
    params={"target": "reporting", "chunk": 50000},
    processes=(
        DemoProcess("python -m warehouse.etl --full --target reporting", 0, 0.9, 0.93, 6),
        DemoProcess("psql -h db1 -c COPY staging.events FROM STDIN", 1, 0.1, 0.07),
    ),
    output_lines=("loaded {n} of 31200 partitions ({x:.0f} rows/s)", "merge into reporting.daily: chunk {n}"),
    error_lines=("psycopg.errors.DeadlockDetected: deadlock detected", "DETAIL: Process 8814 waits for ShareLock"),
    alerts=(
        DemoAlert(610.0, "cpu-throttled", "throttled by its CPU limit 28.4 % above 25.0 % for 1m00s", 0.284, 190.0),
        DemoAlert(1242.0, "cpu-throttled", "throttled by its CPU limit 26.1 % above 25.0 %", 0.261, is_pending=True),
    ),
)
RENDER = DemoJob(
    "render-frames",
    "blender -b lobby.blend -o //out/f_##### -s 240 -e 480 -a",
    "blender",
    cores=0.62,
    memory=2.3 * GIB,
    cpu_curve=LevelCurve("999999199999928", 37),
    limits=Limits(cpus=1, memory_bytes=12 * GIB),
    tags={"project": "media"},
    processes=(DemoProcess("blender -b lobby.blend -s 240 -e 480 -a", 0, 1, 1, 19),),
    output_lines=("Fra:{n} Mem:2210.4M | Time:00:0{small}.41 | Rendered {small}2/64 tiles",),
)
PG_DUMP = DemoJob(
    "pg_dump prod",
    "pg_dump -h db1 -Fd -j 4 -f /backup/prod.dir prod",
    "postgres",
    cores=0.44,
    memory=310 * MIB,
    cpu_curve=LevelCurve("57876734687968", 29),
    read_rate=3 * MIB,
    write_rate=114 * MIB,
    tags={"schedule": "nightly"},
    processes=(
        DemoProcess("pg_dump -h db1 -Fd -j 4 prod", 0, 0.04, 0.2),
        DemoProcess("pg_dump: worker", 1, 0.24, 0.2, 1, 4),
    ),
    output_lines=('pg_dump: dumping contents of table "public.orders_{n}"',),
    error_lines=("pg_dump: error: query failed: SSL connection has been closed unexpectedly",),
)
RSYNC = DemoJob(
    "rsync /data",
    "rsync -aH --info=progress2 /data/ nas:/tank/data/",
    "rsync",
    cores=0.26,
    memory=155 * MIB,
    cpu_curve=LevelCurve("3578964378583", 31),
    read_rate=86 * MIB,
    tags={"schedule": "nightly"},
    processes=(
        DemoProcess("rsync -aH --info=progress2 /data/ nas:/tank/data/", 0, 0.6, 0.6),
        DemoProcess("ssh nas rsync --server -logDtpre.iLsfxCIvu", 1, 0.4, 0.4),
    ),
    output_lines=("{n},412,{small}88  4{small}%   81.22MB/s    0:1{small}:07",),
    error_lines=(
        "rsync: connection unexpectedly closed (18441 bytes received so far) [sender]",
        "rsync error: error in rsync",
    ),
)
BWA = DemoJob(
    "bwa-mem S14",
    "bwa mem -t 1 hg38.fa S14_R1.fastq.gz S14_R2.fastq.gz",
    "bwa",
    cores=0.9,
    memory=4.4 * GIB,
    cpu_curve=LevelCurve("8988998489989", 33),
    read_rate=24 * MIB,
    write_rate=16 * MIB,
    limits=Limits(cpus=1, memory_bytes=8 * GIB),
    tags={"project": "meta", "sample": "S14"},
    output_lines=("[M::mem_process_seqs] Processed {n}44 reads in {x:.3f} CPU sec",),
    error_lines=("[E::bwa_idx_load_from_disk] fail to locate the index files",),
)
NEXTFLOW = DemoJob(
    "variant-calling",
    "nextflow run nf-core/sarek -profile local --input samples.csv",
    "nextflow",
    cores=0.08,
    memory=640 * MIB,
    cpu_curve=LevelCurve("2232923", 45),
    tags={"project": "meta"},
    processes=(DemoProcess("java -jar nextflow.jar run nf-core/sarek", 0, 1, 1, 61),),
    output_lines=("[{small}e/88ab1{n}] process > BWA_MEM (S{small}) [ 4{small}%] {small} of 16",),
)
JUPYTER = DemoJob(
    "jupyter-lab",
    "jupyter lab --no-browser --port 8891",
    "jupyter",
    cores=0.05,
    memory=1.9 * GIB,
    cpu_curve=LevelCurve("0010020001090000", 64),
    tags={"owner": "ada"},
    processes=(
        DemoProcess("jupyter-lab --no-browser --port 8891", 0, 0.3, 0.1, 2),
        DemoProcess("python -m ipykernel_launcher -f kernel-7f.json", 1, 0.7, 0.45, 14, 2),
    ),
    output_lines=("[I ServerApp] Saving file at /notebooks/churn-{small}.ipynb",),
    seconds_per_line=20.0,
)
DOCS = DemoJob(
    "docs-preview",
    "mkdocs serve -a 0.0.0.0:8000",
    "mkdocs",
    cores=0.02,
    memory=88 * MIB,
    cpu_curve=LevelCurve("00100900", 80),
    output_lines=("INFO    -  [GET] /guide/demo_job-{n}/ 200",),
    seconds_per_line=9.0,
)
MDRUN = DemoJob(
    "gromacs-md",
    "gmx mdrun -deffnm npt -ntomp 6 -nsteps 5000000",
    "gromacs",
    cores=5.6,
    memory=780 * MIB,
    limits=Limits(cpus=6, memory_bytes=2 * GIB),
    tags={"project": "folding"},
    processes=(DemoProcess("gmx mdrun -deffnm npt -ntomp 6", 0, 1, 1, 7),),
    output_lines=("           Step           Time\n        {n}000      {n}.00000",),
)
SWEEP = DemoJob(
    "hyper-sweep",
    "python sweep.py --trial 14 --space xgb.json",
    "python",
    cores=2.0,
    memory=2.8 * GIB,
    memory_curve=LevelCurve("2345679", 200, repeats=False),
    limits=Limits(cpus=2, memory_bytes=3 * GIB, timeout_seconds=900),
    tags={"project": "churn"},
    params={"depth": 8, "eta": 0.05},
    queue=Queued(priority=5, group="sweeps"),
    output_lines=("[{n}] train-auc:0.9{small}1  valid-auc:0.8{small}7",),
)
NUMPY = DemoJob(
    "numpy-bench",
    "python bench.py --size 40000",
    "python",
    cores=3.8,
    memory=8 * GIB,
    memory_curve=LevelCurve("0123456789", 400, repeats=False),
    limits=Limits(cpus=4, memory_bytes=8 * GIB, enforced=True),
    tags={"project": "perf"},
    output_lines=("matmul {n}: {x:.1f} GFLOP/s",),
)
LINT = DemoJob(
    "lint", "ruff check src tests", "ruff", cores=1.4, memory=120 * MIB, output_lines=("All checks passed!",)
)
UNIT = DemoJob(
    "unit-tests",
    "pytest -q tests/unit",
    "pytest",
    cores=0.9,
    memory=240 * MIB,
    cpu_curve=LevelCurve("5898798", 12),
    limits=Limits(memory_bytes=1 * GIB),
    tags={"branch": "main"},
    output_lines=("tests/unit/test_{n}.py ........................ [ {small}2%]",),
    error_lines=("FAILED tests/unit/test_prices.py::test_rounding - assert 0.30000000000000004 == 0.3",),
)
SITE = DemoJob(
    "build-site", "hugo --minify", "hugo", cores=1.2, memory=310 * MIB, output_lines=("Total in {x:.0f} ms",)
)
BACKUP = DemoJob(
    "backup-home",
    "restic backup /home --exclude-caches",
    "restic",
    cores=0.7,
    memory=420 * MIB,
    read_rate=60 * MIB,
    write_rate=12 * MIB,
    tags={"schedule": "nightly"},
    queue=Queued(priority=-1, group="nightly"),
    output_lines=("[0:{small}4] {small}1.20%  {n} files, ETA 1:0{small}",),
)
KAFKA = DemoJob(
    "ingest-kafka",
    "python ingest.py --topic clicks --until now",
    "python",
    cores=0.6,
    memory=1.9 * GIB,
    write_rate=18 * MIB,
    tags={"project": "events"},
    output_lines=("offset {n}9120 lag {small}2",),
)

RUNNING: tuple[tuple[DemoJob, float], ...] = (
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
PAUSED: tuple[tuple[DemoJob, float], ...] = ((MDRUN, 2.7 * HOUR),)
QUEUED: tuple[tuple[DemoJob, float], ...] = ((SWEEP, 211.0), (RENDER, 95.0), (BACKUP, 12.0))
SLOTS = {"nightly": 1, "sweeps": 2}
CHILDREN = {BWA.name: NEXTFLOW.name}
SHORT = (UNIT, LINT, SITE)  # start and end while the console is open

EARLIER_RUNS: tuple[EarlierRuns, ...] = (
    EarlierRuns(ETL, 41, DAY, 1900, "sssssssfssssssssss", trend=0.6, newest=DAY - 1270),
    EarlierRuns(BACKUP, 38, DAY, 1400, "ssssssssscssssss", trend=0.2, newest=9.6 * HOUR),
    EarlierRuns(PG_DUMP, 40, DAY, 3900, "sssssssssssssfss", trend=0.15, newest=DAY - 3736),
    EarlierRuns(RSYNC, 30, DAY, 2600, "fsssssssslsss", newest=1.2 * HOUR),
    EarlierRuns(UNIT, 62, 9.1 * HOUR, 34, "sfsssssssfssss", newest=0.3 * HOUR),
    EarlierRuns(PYTEST, 28, 21 * HOUR, 1150, "sssfsssstss", newest=5.2 * HOUR),
    EarlierRuns(
        RESNET,
        14,
        31 * HOUR,
        5400,
        "sfssksss",
        newest=3.1 * HOUR,
        tried={"lr": (0.1, 0.05, 0.2, 0.4), "batch": (256, 256, 128)},
    ),
    EarlierRuns(NUMPY, 6, 47 * HOUR, 410, "osos", newest=1.4 * HOUR),
    EarlierRuns(SWEEP, 17, 13 * HOUR, 880, "tsssostss", newest=2.1 * HOUR),
    EarlierRuns(BLAST, 13, 50 * HOUR, 6200, "essfss", newest=4.4 * HOUR),
    EarlierRuns(BWA, 16, 37 * HOUR, 3100, "ssslss", newest=6.5 * HOUR),
    EarlierRuns(BUILD, 12, 60 * HOUR, 1240, "cssfs", newest=2.6 * HOUR),
    EarlierRuns(KAFKA, 19, 44 * HOUR, 5400, "ss", newest=1.6 * HOUR),
    EarlierRuns(SITE, 24, 23 * HOUR, 9, "s", newest=0.7 * HOUR),
    EarlierRuns(LINT, 31, 17 * HOUR, 6, "ssfs", newest=0.5 * HOUR),
)
