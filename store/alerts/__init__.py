"""Alerts in the store: their states, the messages to send about them, and what people decided. SQL only."""
