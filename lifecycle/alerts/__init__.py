"""Alerts of jobs and hosts at work: evaluated by the engine that samples, stored, delivered."""
