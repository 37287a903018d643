"""A job's way through the world: start, queue, watch, control, adopt, record its end; the agent."""
