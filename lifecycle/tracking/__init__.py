"""Tracked blocks of Python processes.

A block is a job of the kind `python`. The tracked process writes the row of the block when it opens and when it closes
it, with exact totals from its own counters. A sampler process beside it (`sampler.py`) samples the whole process as if
it were attached, and stores a copy of each sample for every open block. If the tracked process is killed, the sampler
records the end of its blocks; if the sampler is killed, only the curve ends.
"""
