"""The output of jobs: both logs of a job as one text, read in parts."""
