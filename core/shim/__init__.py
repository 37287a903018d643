"""The supervisor of a job: shipped as code through a pipe, so standard library only."""
