"""Samples in the store: the head, sealed blocks, the live tail, curves, hosts, snapshots."""
