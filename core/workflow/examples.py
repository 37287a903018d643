"""Workflow files to start from."""

STAGES = """\
# Jobs that run one after the other. Check it: jobtop workflow validate workflow.yaml
name: stages
description: prepare the data, train two models at the same time, report

resource_requirements:
  - name: small
    num_cpus: 1
    memory: 512m
    runtime: PT5M

jobs:
  - name: prepare
    command: echo preparing; sleep 1
    resource_requirements: small

  - name: train_{model}
    command: echo training {model}; sleep 2
    parameters:
      model: "['linear','forest']"
    depends_on: [prepare]
    resource_requirements: small

  - name: report
    command: echo all models are trained
    depends_on_regexes: ["^train_"]

resource_monitor:
  enabled: true
  granularity: summary
  sample_interval_seconds: 1
"""

FILES = """\
# Files lead from job to job: a job that reads a file starts after the job that writes it.
name: files
description: split the numbers, sum both halves at the same time, add the sums

files:
  - {name: low, path: low.txt}
  - {name: high, path: high.txt}
  - {name: low_sum, path: low_sum.txt}
  - {name: high_sum, path: high_sum.txt}

jobs:
  - name: split
    command: seq 1 50 > ${files.output.low}; seq 51 100 > ${files.output.high}
  - name: sum_low
    command: awk '{s += $1} END {print s}' ${files.input.low} > ${files.output.low_sum}
  - name: sum_high
    command: awk '{s += $1} END {print s}' ${files.input.high} > ${files.output.high_sum}
  - name: total
    command: cat ${files.input.low_sum} ${files.input.high_sum} | awk '{s += $1} END {print s}'
"""

SWEEP = """\
# A sweep over parameters: 3 x 3 x 2 jobs of one entry, and one job that waits for all of them.
name: sweep
parameters:
  lr: "[0.001,0.01,0.1]"
  batch: "[16,32,64]"
  optimizer: "['adam','sgd']"

jobs:
  - name: train_lr{lr:.4f}_b{batch}_{optimizer}
    command: echo lr={lr} batch={batch} optimizer={optimizer}
    use_parameters: [lr, batch, optimizer]

  - name: collect
    command: echo all 18 runs have ended
    use_parameters: [lr, batch, optimizer]
    depends_on: ["train_lr{lr:.4f}_b{batch}_{optimizer}"]
"""

EXAMPLES = {"stages": STAGES, "files": FILES, "sweep": SWEEP}
