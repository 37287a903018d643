"""The tables, as migration steps from an empty file to the current version. A released step never changes.

Run `make schema` after adding a step: a new store is made from the script that it writes.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    import sqlite3

V1 = """
CREATE TABLE jobs (
    seq INTEGER PRIMARY KEY AUTOINCREMENT,
    id TEXT NOT NULL UNIQUE,
    external_id TEXT,
    parent_id TEXT,
    name TEXT NOT NULL,
    tool TEXT,
    script TEXT,
    command TEXT NOT NULL,
    params TEXT NOT NULL,
    tags TEXT NOT NULL,
    note TEXT,
    host TEXT NOT NULL,
    user TEXT NOT NULL,
    cwd TEXT NOT NULL,
    pid INTEGER,
    status TEXT NOT NULL,
    reason TEXT,
    flags TEXT NOT NULL,
    exit_code INTEGER,
    signal INTEGER,
    error TEXT,
    submitted_at REAL,
    start_time REAL,
    end_time REAL,
    duration_seconds REAL,
    limit_cpus REAL,
    limit_memory_bytes INTEGER,
    limit_runtime_seconds REAL,
    limit_gpus INTEGER,
    limit_timeout_seconds REAL,
    limit_enforced INTEGER NOT NULL,
    cpu_user_seconds REAL,
    cpu_system_seconds REAL,
    cpu_total_seconds REAL,
    cpu_efficiency REAL,
    cpu_percent_mean REAL,
    cpu_percent_min REAL,
    cpu_percent_peak REAL,
    cpus_allowed REAL,
    memory_peak_bytes INTEGER,
    memory_mean_bytes INTEGER,
    memory_min_bytes INTEGER,
    memory_cgroup_peak_bytes INTEGER,
    io_read_bytes INTEGER,
    io_write_bytes INTEGER,
    io_read_chars INTEGER,
    io_write_chars INTEGER,
    faults_minor INTEGER,
    faults_major INTEGER,
    switches_voluntary INTEGER,
    switches_involuntary INTEGER,
    processes_seen INTEGER,
    processes_peak INTEGER,
    threads_peak INTEGER,
    oom_kills INTEGER,
    samples INTEGER,
    sources TEXT NOT NULL,
    incomplete TEXT NOT NULL,
    monitor TEXT NOT NULL,
    grace_seconds REAL NOT NULL,
    shim_boot TEXT,
    shim_pid INTEGER,
    shim_start INTEGER,
    recorder_boot TEXT,
    recorder_pid INTEGER,
    recorder_start INTEGER,
    heartbeat REAL,
    stop_by TEXT,
    stop_at REAL,
    settled INTEGER NOT NULL
) STRICT;
CREATE INDEX jobs_by_start ON jobs (start_time);
CREATE INDEX jobs_by_external_id ON jobs (external_id) WHERE external_id IS NOT NULL;
CREATE INDEX jobs_unsettled ON jobs (host) WHERE settled = 0;
CREATE TABLE events (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    job_seq INTEGER NOT NULL REFERENCES jobs (seq) ON DELETE CASCADE,
    at REAL NOT NULL,
    kind TEXT NOT NULL,
    detail TEXT NOT NULL
) STRICT;
CREATE INDEX events_by_job ON events (job_seq, id);
CREATE TABLE log_marks (
    job_seq INTEGER NOT NULL REFERENCES jobs (seq) ON DELETE CASCADE,
    elapsed_seconds REAL NOT NULL,
    stdout_bytes INTEGER NOT NULL,
    stderr_bytes INTEGER,
    PRIMARY KEY (job_seq, elapsed_seconds)
) STRICT, WITHOUT ROWID;
"""

# The rows of a deleted job stay in the head until they are trimmed. To find them at once would need an index by job,
# with which writing the samples of 1,000 jobs takes six times as long. ANY: a measured number, an integer or not.
V2 = """
CREATE TABLE head (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    job_seq INTEGER NOT NULL,
    elapsed REAL NOT NULL,
    cpu_user ANY,
    cpu_system ANY,
    cpu_throttled ANY,
    cpu_pressure ANY,
    mem_used ANY,
    mem_rss ANY,
    mem_pss ANY,
    mem_vms ANY,
    mem_swap ANY,
    mem_cgroup ANY,
    mem_anon ANY,
    mem_file ANY,
    mem_shmem ANY,
    mem_faults_minor ANY,
    mem_faults_major ANY,
    mem_oom_kills ANY,
    mem_pressure ANY,
    io_read_bytes ANY,
    io_write_bytes ANY,
    io_read_chars ANY,
    io_write_chars ANY,
    io_read_ops ANY,
    io_write_ops ANY,
    io_pressure ANY,
    proc_count ANY,
    proc_threads ANY,
    proc_fds ANY,
    proc_switches_voluntary ANY,
    proc_switches_involuntary ANY,
    net_rx_bytes ANY,
    net_tx_bytes ANY,
    net_rx_packets ANY,
    net_tx_packets ANY,
    net_errors ANY,
    net_drops ANY,
    gpu_util ANY,
    gpu_mem_used ANY,
    energy_cpu ANY,
    energy_gpu ANY,
    limit_cpus ANY,
    limit_memory ANY,
    limit_pids ANY
) STRICT;
CREATE TABLE series (
    job_seq INTEGER PRIMARY KEY REFERENCES jobs (seq) ON DELETE CASCADE,
    sealed_until INTEGER NOT NULL
) STRICT;
CREATE TABLE blocks (
    id INTEGER PRIMARY KEY,
    job_seq INTEGER NOT NULL REFERENCES jobs (seq) ON DELETE CASCADE,
    first_elapsed REAL NOT NULL,
    last_elapsed REAL NOT NULL,
    last_id INTEGER NOT NULL,
    samples INTEGER NOT NULL,
    data BLOB NOT NULL
) STRICT;
CREATE INDEX blocks_by_job ON blocks (job_seq, last_id, first_elapsed, last_elapsed);
"""

# Samples of the host: `hosts` has one row for each boot, and times are seconds since the boot. The columns of
# `host_head` come from the catalogue. `leases` has the process that alone may do something, such as record the host.
# Every change of a job sets `touched` to a greater number: a follower asks for jobs with a number above the last one.
# `jobs_in_short` has the columns that filter and sort jobs, in a tenth of the pages of the table.
V3 = """
ALTER TABLE jobs ADD COLUMN metrics TEXT NOT NULL DEFAULT '{}';
ALTER TABLE jobs ADD COLUMN start_boottime REAL;
ALTER TABLE jobs ADD COLUMN touched INTEGER NOT NULL DEFAULT 0;
CREATE INDEX jobs_by_touch ON jobs (touched);
DROP INDEX jobs_by_start;
CREATE INDEX jobs_in_short ON jobs (
    start_time, submitted_at, end_time, duration_seconds, status, exit_code, signal, name, tool, host, user, id,
    external_id, cpu_total_seconds, cpu_efficiency, memory_peak_bytes, io_read_bytes, io_write_bytes, flags, tags,
    script, note, params, command
);
CREATE TABLE snapshots (
    job_seq INTEGER NOT NULL REFERENCES jobs (seq) ON DELETE CASCADE,
    elapsed REAL NOT NULL,
    members BLOB NOT NULL,
    PRIMARY KEY (job_seq, elapsed)
) STRICT, WITHOUT ROWID;
CREATE TABLE hosts (
    seq INTEGER PRIMARY KEY,
    boot TEXT NOT NULL UNIQUE,
    boot_time REAL NOT NULL
) STRICT;
CREATE TABLE host_head (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    host_seq INTEGER NOT NULL,
    elapsed REAL NOT NULL
) STRICT;
CREATE TABLE host_series (
    host_seq INTEGER PRIMARY KEY REFERENCES hosts (seq) ON DELETE CASCADE,
    sealed_until INTEGER NOT NULL
) STRICT;
CREATE TABLE host_blocks (
    id INTEGER PRIMARY KEY,
    host_seq INTEGER NOT NULL REFERENCES hosts (seq) ON DELETE CASCADE,
    first_elapsed REAL NOT NULL,
    last_elapsed REAL NOT NULL,
    last_id INTEGER NOT NULL,
    samples INTEGER NOT NULL,
    data BLOB NOT NULL
) STRICT;
CREATE INDEX host_blocks_by_host ON host_blocks (host_seq, last_id, first_elapsed, last_elapsed);
CREATE TABLE host_details (
    host_seq INTEGER NOT NULL REFERENCES hosts (seq) ON DELETE CASCADE,
    elapsed REAL NOT NULL,
    detail BLOB NOT NULL,
    PRIMARY KEY (host_seq, elapsed)
) STRICT, WITHOUT ROWID;
CREATE TABLE leases (
    name TEXT PRIMARY KEY,
    boot TEXT NOT NULL,
    pid INTEGER NOT NULL,
    start INTEGER,
    until REAL NOT NULL
) STRICT;
"""

# `queue` of a queued job has, as JSON, its conditions and its priority. The slots of a group limit how many of its jobs
# run at once. `agent` has one row while an agent serves the store. `touches` has the greatest `touched` at the time of
# the last deletion of a job: a later number must be greater.
V4 = """
ALTER TABLE jobs ADD COLUMN queue TEXT;
CREATE TABLE groups (
    name TEXT PRIMARY KEY,
    slots INTEGER NOT NULL
) STRICT;
CREATE TABLE touches (
    last INTEGER NOT NULL
) STRICT;
INSERT INTO touches SELECT coalesce(max(touched), 0) FROM jobs;
CREATE TABLE agent (
    boot TEXT NOT NULL,
    pid INTEGER NOT NULL,
    start INTEGER,
    since REAL NOT NULL
) STRICT;
"""

# Indexes to find the largest and the longest of 100,000 jobs, with the columns of the usual filters.
V5 = """
CREATE INDEX jobs_by_memory ON jobs (memory_peak_bytes, status, tool, host, name, start_time, submitted_at);
CREATE INDEX jobs_by_duration ON jobs (duration_seconds, status, tool, host, name, start_time, submitted_at);
"""

# Old samples are thinned to minutes, and later deleted. `rolled_until` is the last id of an owner that is in a block of
# minutes, `kept` says what a job still has (whole, minutes, record). Retention does not change pinned jobs.
# `jobs_by_begun` orders jobs by their start, not by their number, since jobs can be imported. Few jobs fail and few
# alerts are raised: partial indexes find the newest of them.
V6 = """
ALTER TABLE jobs ADD COLUMN pinned INTEGER NOT NULL DEFAULT 0;
ALTER TABLE jobs ADD COLUMN kept TEXT NOT NULL DEFAULT 'whole';
CREATE INDEX jobs_by_begun ON jobs (coalesce(start_time, submitted_at));
CREATE INDEX jobs_by_kept ON jobs (kept, start_time) WHERE kept <> 'record';
CREATE INDEX jobs_that_failed ON jobs (coalesce(end_time, start_time, submitted_at))
    WHERE status IN ('failed', 'timeout', 'error', 'lost');
CREATE INDEX events_of_alerts ON events (at) WHERE kind = 'alert';
ALTER TABLE series ADD COLUMN rolled_until INTEGER NOT NULL DEFAULT 0;
ALTER TABLE host_series ADD COLUMN rolled_until INTEGER NOT NULL DEFAULT 0;
"""

# `kind` of a job names the file of lifecycle/kinds/ that acts on it; `environment` has the variables of its record.
# An event has one owner: a job, a boot of the host, or a device. A device belongs to a boot, since its times are
# seconds since the boot; the columns of `device_head` come from the catalogue. `named` has series with names that jobs
# chose. A boot has the name of its host, since a merged store has boots of several hosts. A row of a head with the
# owner 0 has in `unchanged` a list of owners with unchanged values, and the times of their samples: N little-endian
# 64-bit integers, then N 64-bit floats.
V7 = """
ALTER TABLE jobs ADD COLUMN kind TEXT NOT NULL DEFAULT 'process';
ALTER TABLE jobs ADD COLUMN environment TEXT NOT NULL DEFAULT '{}';
UPDATE jobs SET kind = 'attached' WHERE flags LIKE '%"attached"%';
ALTER TABLE head ADD COLUMN unchanged BLOB;
ALTER TABLE host_head ADD COLUMN unchanged BLOB;
ALTER TABLE hosts ADD COLUMN name TEXT;
UPDATE hosts SET name = (SELECT host FROM jobs WHERE shim_boot = boot LIMIT 1);
CREATE TABLE devices (
    seq INTEGER PRIMARY KEY AUTOINCREMENT,
    host_seq INTEGER NOT NULL REFERENCES hosts (seq) ON DELETE CASCADE,
    kind TEXT NOT NULL,
    name TEXT NOT NULL,
    UNIQUE (host_seq, kind, name)
) STRICT;
CREATE TABLE device_head (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    device_seq INTEGER NOT NULL,
    elapsed REAL NOT NULL,
    unchanged BLOB
) STRICT;
CREATE TABLE device_series (
    device_seq INTEGER PRIMARY KEY REFERENCES devices (seq) ON DELETE CASCADE,
    sealed_until INTEGER NOT NULL,
    rolled_until INTEGER NOT NULL DEFAULT 0
) STRICT;
CREATE TABLE device_blocks (
    id INTEGER PRIMARY KEY,
    device_seq INTEGER NOT NULL REFERENCES devices (seq) ON DELETE CASCADE,
    first_elapsed REAL NOT NULL,
    last_elapsed REAL NOT NULL,
    last_id INTEGER NOT NULL,
    samples INTEGER NOT NULL,
    data BLOB NOT NULL
) STRICT;
CREATE INDEX device_blocks_by_device ON device_blocks (device_seq, last_id, first_elapsed, last_elapsed);
CREATE TABLE named (
    seq INTEGER PRIMARY KEY AUTOINCREMENT,
    job_seq INTEGER NOT NULL REFERENCES jobs (seq) ON DELETE CASCADE,
    name TEXT NOT NULL,
    UNIQUE (job_seq, name)
) STRICT;
CREATE TABLE named_head (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    named_seq INTEGER NOT NULL,
    elapsed REAL NOT NULL,
    value ANY,
    unchanged BLOB
) STRICT;
CREATE TABLE named_series (
    named_seq INTEGER PRIMARY KEY REFERENCES named (seq) ON DELETE CASCADE,
    sealed_until INTEGER NOT NULL,
    rolled_until INTEGER NOT NULL DEFAULT 0
) STRICT;
CREATE TABLE named_blocks (
    id INTEGER PRIMARY KEY,
    named_seq INTEGER NOT NULL REFERENCES named (seq) ON DELETE CASCADE,
    first_elapsed REAL NOT NULL,
    last_elapsed REAL NOT NULL,
    last_id INTEGER NOT NULL,
    samples INTEGER NOT NULL,
    data BLOB NOT NULL
) STRICT;
CREATE INDEX named_blocks_by_named ON named_blocks (named_seq, last_id, first_elapsed, last_elapsed);
CREATE TABLE owned_events (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    job_seq INTEGER REFERENCES jobs (seq) ON DELETE CASCADE,
    host_seq INTEGER REFERENCES hosts (seq) ON DELETE CASCADE,
    device_seq INTEGER REFERENCES devices (seq) ON DELETE CASCADE,
    at REAL NOT NULL,
    kind TEXT NOT NULL,
    detail TEXT NOT NULL,
    CHECK (iif(job_seq, 1, 0) + iif(host_seq, 1, 0) + iif(device_seq, 1, 0) = 1)
) STRICT;
INSERT INTO owned_events (id, job_seq, at, kind, detail)
    SELECT id, job_seq, at, kind, detail FROM events WHERE job_seq IN (SELECT seq FROM jobs);
DROP TABLE events;
ALTER TABLE owned_events RENAME TO events;
DELETE FROM sqlite_sequence WHERE name = 'events' AND seq = 0;
CREATE INDEX events_by_job ON events (job_seq, id);
CREATE INDEX events_of_host ON events (at) WHERE host_seq IS NOT NULL;
CREATE INDEX events_of_device ON events (device_seq, at) WHERE device_seq IS NOT NULL;
CREATE INDEX events_of_alerts ON events (at) WHERE kind = 'alert';
"""

# What a job used of GPUs; percent of one GPU, of all GPUs together.
V8 = """
ALTER TABLE jobs ADD COLUMN gpu_util_mean REAL;
ALTER TABLE jobs ADD COLUMN gpu_util_peak REAL;
ALTER TABLE jobs ADD COLUMN gpu_memory_peak_bytes INTEGER;
ALTER TABLE jobs ADD COLUMN energy_gpu_joules REAL;
"""

# `limited_by` names what limited a job most; `findings` has, as JSON, lists that are no series: the files it read most,
# its storage devices, the evidence for its end.
V9 = """
ALTER TABLE jobs ADD COLUMN energy_cpu_joules REAL;
ALTER TABLE jobs ADD COLUMN net_rx_bytes INTEGER;
ALTER TABLE jobs ADD COLUMN net_tx_bytes INTEGER;
ALTER TABLE jobs ADD COLUMN limited_by TEXT;
ALTER TABLE jobs ADD COLUMN findings TEXT NOT NULL DEFAULT '{}';
"""

# `alerts` has one row for each time that a rule was true: of a job, of a boot of the host, or of a device. `value` is
# what made it fire, `worst` the largest excess since; `detail` has other values as JSON. `messages` has what is to be
# sent: `action` and `origin` name the action and its file, since an address may be a secret; `ready_at` is when it may
# be sent, `tries` counts attempts; `members` has the ids of its alerts as JSON. `alert_marks` has what people decided:
# kind `mute_rule`, `mute_job`, `armed` (a rule that may act), `seen` (a failed job that was acknowledged); and `failed`
# (a rule that cannot be evaluated; `note` says why, and `by` is the digest of the rule).
V10 = """
CREATE TABLE alerts (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    job_seq INTEGER REFERENCES jobs (seq) ON DELETE CASCADE,
    host_seq INTEGER REFERENCES hosts (seq) ON DELETE CASCADE,
    device_seq INTEGER REFERENCES devices (seq) ON DELETE CASCADE,
    rule TEXT NOT NULL,
    kind TEXT NOT NULL,
    severity TEXT NOT NULL,
    state TEXT NOT NULL,
    began_at REAL NOT NULL,
    fired_at REAL,
    resolved_at REAL,
    acknowledged_at REAL,
    acknowledged_by TEXT,
    note TEXT,
    value REAL,
    worst REAL,
    level REAL,
    text TEXT NOT NULL,
    detail TEXT NOT NULL DEFAULT '{}',
    flapping INTEGER NOT NULL DEFAULT 0,
    step INTEGER NOT NULL DEFAULT 0,
    CHECK (iif(job_seq, 1, 0) + iif(host_seq, 1, 0) + iif(device_seq, 1, 0) = 1)
) STRICT;
CREATE INDEX alerts_by_job ON alerts (job_seq, state, severity) WHERE job_seq IS NOT NULL;
CREATE INDEX alerts_open ON alerts (state, rule) WHERE state <> 'resolved';
CREATE INDEX alerts_by_time ON alerts (began_at);
CREATE INDEX alerts_of_hosts ON alerts (host_seq) WHERE host_seq IS NOT NULL;
CREATE INDEX alerts_of_devices ON alerts (device_seq) WHERE device_seq IS NOT NULL;
CREATE TABLE messages (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    key TEXT NOT NULL UNIQUE,
    rule TEXT NOT NULL,
    action TEXT NOT NULL,
    origin TEXT NOT NULL,
    state TEXT NOT NULL,
    severity TEXT NOT NULL,
    created_at REAL NOT NULL,
    ready_at REAL NOT NULL,
    next_try_at REAL NOT NULL,
    tries INTEGER NOT NULL DEFAULT 0,
    problem TEXT,
    sent_at REAL,
    given_up_at REAL,
    members TEXT NOT NULL,
    content TEXT
) STRICT;
CREATE INDEX messages_unsent ON messages (action, id) WHERE sent_at IS NULL AND given_up_at IS NULL;
CREATE INDEX messages_by_rule ON messages (rule, created_at);
CREATE TABLE alert_marks (
    kind TEXT NOT NULL,
    name TEXT NOT NULL,
    at REAL NOT NULL,
    until REAL,
    by TEXT NOT NULL,
    note TEXT,
    PRIMARY KEY (kind, name)
) STRICT, WITHOUT ROWID;
"""

# `container_follows` has the labels of containers that the agent makes jobs from, each time that one starts: `label` is
# KEY or KEY=VALUE, `url` the address of an engine and `engine` its name; `options` has tool, tags and note as JSON.
V11 = """
ALTER TABLE jobs ADD COLUMN limit_pids INTEGER;
CREATE TABLE container_follows (
    host TEXT NOT NULL,
    url TEXT NOT NULL,
    label TEXT NOT NULL,
    engine TEXT NOT NULL,
    at REAL NOT NULL,
    by TEXT NOT NULL,
    options TEXT NOT NULL DEFAULT '{}',
    PRIMARY KEY (host, url, label)
) STRICT, WITHOUT ROWID;
"""

# `workflows` has a row for each workflow file that was run or submitted, `workflow_runs` one for each time: `settings`
# is JSON. `workflow_jobs` has the jobs of each run: `job_id` is the first attempt, `after` and `after_end` are JSON
# lists of names, `fingerprint` is what the job was made from. `is_kept` is 1 if an earlier run has done the job.
V12 = """
CREATE TABLE workflows (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    name TEXT NOT NULL,
    file TEXT NOT NULL,
    cwd TEXT NOT NULL,
    host TEXT NOT NULL,
    user TEXT NOT NULL,
    at REAL NOT NULL
) STRICT;
CREATE INDEX workflows_by_name ON workflows (name, id);
CREATE TABLE workflow_runs (
    workflow_id INTEGER NOT NULL REFERENCES workflows (id) ON DELETE CASCADE,
    run_id INTEGER NOT NULL,
    at REAL NOT NULL,
    settings TEXT NOT NULL,
    PRIMARY KEY (workflow_id, run_id)
) STRICT, WITHOUT ROWID;
CREATE TABLE workflow_jobs (
    workflow_id INTEGER NOT NULL,
    run_id INTEGER NOT NULL,
    position INTEGER NOT NULL,
    name TEXT NOT NULL,
    role TEXT NOT NULL,
    job_id TEXT NOT NULL,
    after TEXT NOT NULL,
    after_end TEXT NOT NULL,
    fingerprint TEXT NOT NULL,
    is_kept INTEGER NOT NULL,
    PRIMARY KEY (workflow_id, run_id, position),
    FOREIGN KEY (workflow_id, run_id) REFERENCES workflow_runs (workflow_id, run_id) ON DELETE CASCADE
) STRICT, WITHOUT ROWID;
CREATE INDEX workflow_jobs_by_job ON workflow_jobs (job_id);
"""

TABLES = (
    *("jobs", "events", "log_marks", "head", "series", "blocks", "snapshots", "hosts", "host_head", "host_series"),
    *("host_blocks", "host_details", "leases", "groups", "touches", "agent", "devices", "device_head", "device_series"),
    *("device_blocks", "named", "named_head", "named_series", "named_blocks"),
    *("alerts", "messages", "alert_marks", "container_follows", "workflows", "workflow_runs", "workflow_jobs"),
)
MIGRATIONS: tuple[str, ...] = (V1, V2, V3, V4, V5, V6, V7, V8, V9, V10, V11, V12)
VERSION = len(MIGRATIONS)


def has_tables_of(connection: sqlite3.Connection, version: int) -> bool:
    """Whether a store has at least this version: a store opened read-only may be older."""
    return int(connection.execute("PRAGMA user_version").fetchone()[0]) >= version
