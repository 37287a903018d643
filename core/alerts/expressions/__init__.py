"""The calculations of rules: parsed, compiled, and the units of their values."""
