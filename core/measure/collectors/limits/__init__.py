"""The source of the limits of jobs: of their cgroups, their processes, the batch system, and what they asked for."""
