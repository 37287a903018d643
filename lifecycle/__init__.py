"""The life of a job: start, queue, sampling, requests, end; and the agent.

The files `started`, `ended`, `marks` and the logs are in the directory of the job, jobs/ID. The shim writes them; only
a detached job writes its log itself.

`run` starts a shim, writes specs/ID.json and a row of the store, and sends the shim its order. The shim creates
`started`, starts the command, reaps all processes of the job and writes `ended`. `run` samples the job and writes start
and end into the row: it is the recorder of the job. `run --detach` and `run` at a terminal leave that to the agent.

`submit` writes specs/ID.json and a row. The agent starts the job when it is its turn, and is its recorder.

`attach` writes `started` and a row for a running process. The agent samples it, and records that it is gone.

If a recorder is killed, the shim starts an agent, which takes over; or the next verb calls `reconcile`. If a shim is
killed, the job is recorded as lost. If the agent is killed, its spare shim starts a new one.
"""
