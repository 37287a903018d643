"""Maintenance of a store: retention, merging, checking, describing, compacting, copying."""
