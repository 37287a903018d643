"""What the last lines of output say about an end: real messages of Python, GPUs, MPI, batch systems and others."""

import time

import pytest

from jobtop.core.analysis.evidence import Cause
from jobtop.core.analysis.output_causes import best_sign, child_pids, find_signs

TORCH = (
    "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB. GPU 0 has a total capacity of 15.77 GiB"
    " of which 1.10 GiB is free."
)
OLD_TORCH = (
    "RuntimeError: CUDA out of memory. Tried to allocate 512.00 MiB (GPU 1; 15.78 GiB total capacity; 14.00 GiB already"
)
TENSORFLOW = (
    "tensorflow.python.framework.errors_impl.ResourceExhaustedError: OOM when allocating tensor with shape[8192,8192]"
    " and type float on /job:localhost/replica:0/task:0/device:GPU:0 by allocator GPU_0_bfc"
)
JAX = "jaxlib.XlaRuntimeError: RESOURCE_EXHAUSTED: Out of memory while trying to allocate 17179869184 bytes."
SLURM_TIME = "slurmstepd-n1: error: *** JOB 16 ON n1 CANCELLED AT 2026-11-16T01:33:40 DUE TO TIME LIMIT ***"
SLURM_MEMORY = (
    "slurmstepd: error: Detected 1 oom_kill event in StepId=16.batch. Some of the step tasks have been OOM Killed."
)
MPI_NOTICED = "mpirun noticed that process rank 3 with PID 0 on node n1 exited on signal 11 (Segmentation fault)."
BASH_KILLED = "run.sh: line 3: 4711 Killed                  ./solver"


def traceback_of(*lines: str, file: str = "/home/ada/train.py", prefix: str = "") -> list[str]:
    frames = [
        "Traceback (most recent call last):",
        f'  File "{file}", line 42, in main',
        "    step(batch)",
        "    ~~~~^^^^^^^",
        '  File "/opt/venv/lib/python3.12/site-packages/torch/nn.py", line 9, in forward',
        "    return self.inner(x)",
    ]
    return [prefix + line for line in (*frames, *lines)]


@pytest.mark.parametrize(
    ("line", "cause", "subject"),
    [
        (SLURM_TIME, Cause.BATCH_TIME, "JOB 16"),
        ("=>> PBS: job killed: walltime 3602 exceeded limit 3600", Cause.BATCH_TIME, None),
        ("TERM_RUNLIMIT: job killed after reaching LSF run time limit.", Cause.BATCH_TIME, None),
        ('job 4 exceeded job hard limit "h_rt" of queue "all.q@n1" (10.0 > limit:5.0)', Cause.BATCH_TIME, None),
        (SLURM_MEMORY, Cause.BATCH_MEMORY, None),
        ("=>> PBS: job killed: mem 2097152kb exceeded limit 1048576kb", Cause.BATCH_MEMORY, None),
        ("TERM_MEMLIMIT: job killed after reaching LSF memory usage limit.", Cause.BATCH_MEMORY, None),
        (
            "slurmstepd: error: *** STEP 7.0 ON n1 CANCELLED AT 2026-11-16T01:33:40 ***",
            Cause.BATCH_CANCELLED,
            "STEP 7.0",
        ),
        ("cp: error writing '/data/x': No space left on device", Cause.DISK_FULL, "/data/x"),
        ("OSError: [Errno 28] No space left on device: '/data/x'", Cause.DISK_FULL, "/data/x"),
        ("cp: error writing 'x': Disk quota exceeded", Cause.QUOTA, None),
        ("sh: 1: Cannot fork", Cause.PROCESSES, None),
        ("bash: fork: retry: Resource temporarily unavailable", Cause.PROCESSES, None),
        ("RuntimeError: can't start new thread", Cause.PROCESSES, None),
        ("bash: xrealloc: Cannot allocate memory", Cause.ALLOCATION, None),
        ("Error: cannot allocate vector of size 7.5 Gb", Cause.ALLOCATION, None),
        ("Caused by: java.lang.OutOfMemoryError: Java heap space", Cause.ALLOCATION, None),
        ("  what():  std::bad_alloc", Cause.ALLOCATION, None),
        ("socket: Too many open files", Cause.OPEN_FILES, None),
        ("/usr/bin/python3: No module named pip", Cause.MISSING_MODULE, "pip"),
        ("Error in library(dplyr) : there is no package called ‘dplyr’", Cause.MISSING_MODULE, "dplyr"),
        (
            "./a: error while loading shared libraries: libcudart.so.12: cannot open shared object file: No such file",
            Cause.MISSING_LIBRARY,
            "libcudart.so.12",
        ),
        ("./a: /lib/libc.so.6: version `GLIBC_2.38' not found (required by ./a)", Cause.MISSING_LIBRARY, "GLIBC_2.38"),
        ("run.sh: line 1: nvcc: command not found", Cause.MISSING_COMMAND, "nvcc"),
        ("sh: 1: nvcc: not found", Cause.MISSING_COMMAND, "nvcc"),
        ("env: ‘python’: No such file or directory", Cause.MISSING_COMMAND, "python"),
        ("Segmentation fault (core dumped)", Cause.CRASH, None),
        ("run.sh: line 2: 4711 Segmentation fault      (core dumped) ./solver", Cause.CRASH, None),
        ("Fatal Python error: Segmentation fault", Cause.CRASH, None),
        ("a: a.c:3: main: Assertion `n > 0' failed.", Cause.ASSERTION, None),
        ("thread 'main' panicked at 'index out of bounds', src/main.rs:2:5", Cause.EXCEPTION, None),
        ('Exception in thread "main" java.lang.IllegalStateException: bad', Cause.EXCEPTION, None),
        ("SyntaxError: invalid syntax", Cause.EXCEPTION, None),
        ("cat: /mnt/x: Input/output error", Cause.IO_ERROR, None),
        ("MPI_ABORT was invoked on rank 0 in communicator MPI_COMM_WORLD", Cause.MPI, None),
        (MPI_NOTICED, Cause.MPI, None),
        ("Killed", Cause.KILLED, None),
        (BASH_KILLED, Cause.KILLED, None),
        (TORCH, Cause.GPU_MEMORY, None),
        (TENSORFLOW, Cause.GPU_MEMORY, None),
        (JAX, Cause.GPU_MEMORY, None),
    ],
)
def test_the_message_of_a_known_failure_is_recognised(line: str, cause: Cause, subject: str | None) -> None:
    (sign,) = find_signs(["epoch 1", line])
    assert (sign.cause, sign.subject) == (cause, subject)


@pytest.mark.parametrize(
    "line",
    [
        "Killed 5 monsters",
        "we test for Segmentation fault here",
        "loss 0.1 (no space)",
        "panic: this is only a word",
        "recv: Resource temporarily unavailable",
        "page not found: 404",
    ],
)
def test_other_lines_are_no_signs(line: str) -> None:
    assert find_signs([line]) == []


@pytest.mark.parametrize(
    ("line", "text"),
    [
        (TORCH, "CUDA out of memory: tried to allocate 2.00 GiB (GPU 0)"),
        (OLD_TORCH, "CUDA out of memory: tried to allocate 512.00 MiB (GPU 1)"),
        (JAX, "RESOURCE_EXHAUSTED: Out of memory while trying to allocate 17179869184 bytes."),
    ],
)
def test_lack_of_gpu_memory_is_told_with_its_amount(line: str, text: str) -> None:
    sign = best_sign(find_signs(traceback_of(line)))
    assert sign is not None
    assert (sign.cause, sign.text) == (Cause.GPU_MEMORY, text)


def test_a_traceback_gives_its_exception_and_the_deepest_frame_that_is_no_library() -> None:
    (sign,) = find_signs([*traceback_of("ValueError: bad batch"), "wandb: uploading"])
    assert (sign.cause, sign.text, sign.frame) == (Cause.EXCEPTION, "ValueError: bad batch", "train.py:42 in main")


def test_source_lines_of_a_traceback_are_no_messages() -> None:
    lines = traceback_of("ValueError: bad")
    (sign,) = find_signs([*lines[:3], '    raise OSError("No space left on device")', *lines[3:]])
    assert sign.text == "ValueError: bad"


def test_a_traceback_with_a_prefix_on_each_line_is_read_as_one() -> None:
    (sign,) = find_signs(traceback_of("KeyError: 'x'", prefix="[rank0]: "))
    assert (sign.text, sign.frame) == ("KeyError: 'x'", "train.py:42 in main")


def test_a_traceback_behind_a_progress_bar_is_found() -> None:
    first, *rest = traceback_of("ValueError: bad")
    (sign,) = find_signs([f" 50%|████     | 5/10{first}", *rest])
    assert (sign.text, sign.frame) == ("ValueError: bad", "train.py:42 in main")


def test_the_exception_of_a_launcher_counts_less_than_that_of_its_child() -> None:
    launcher = traceback_of("torch.distributed.elastic.multiprocessing.errors.ChildFailedError:")
    sign = best_sign(find_signs([*traceback_of("ValueError: bad"), *launcher]))
    assert sign is not None
    assert sign.text == "ValueError: bad"


def test_the_last_sign_counts_and_a_batch_system_before_all() -> None:
    lines = ["warning: No space left on device", *traceback_of("ValueError: bad")]
    sign = best_sign(find_signs(lines))
    assert sign is not None
    assert sign.text == "ValueError: bad"
    sign = best_sign(find_signs([SLURM_TIME, *lines, MPI_NOTICED]))
    assert sign is not None
    assert sign.cause is Cause.BATCH_TIME


def test_a_fork_that_is_refused_is_told_from_other_errors_of_the_same_number() -> None:
    error = "BlockingIOError: [Errno 11] Resource temporarily unavailable"
    (fork,) = find_signs(["Traceback (most recent call last):", '  File "a.py", line 1', "    os.fork()", error])
    (lock,) = find_signs(["Traceback (most recent call last):", '  File "a.py", line 1', "    fcntl.flock(f)", error])
    assert (fork.cause, lock.cause) == (Cause.PROCESSES, Cause.EXCEPTION)


def test_rust_and_go_tell_their_panics_over_two_lines() -> None:
    (rust,) = find_signs(["thread 'main' (7) panicked at src/main.rs:2:5:", "index out of bounds", "note: run with"])
    assert rust.text.endswith("src/main.rs:2:5: index out of bounds")
    (go,) = find_signs(["panic: runtime error: index out of range [5]", "", "goroutine 1 [running]:"])
    assert (go.cause, go.text) == (Cause.EXCEPTION, "panic: runtime error: index out of range [5]")


def test_pids_of_killed_children_are_found() -> None:
    worker = "RuntimeError: DataLoader worker (pid 815) is killed by signal: Killed."
    assert child_pids([BASH_KILLED, worker, "worker (pid 7) is fine"]) == {4711, 815}


@pytest.mark.parametrize("piece", ["slurmstepd", "fork ", "a", ": line 1: 1 ", "RESOURCE_EXHAUSTED: ", "CUDA out of "])
def test_no_line_takes_long_to_search(piece: str) -> None:
    began = time.process_time()
    find_signs([(piece * 600)[:600]] * 200)
    assert time.process_time() - began < 2.0


def test_only_the_last_lines_are_searched() -> None:
    assert find_signs(["Too many open files", *["fine"] * 500]) == []
