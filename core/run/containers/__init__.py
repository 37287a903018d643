"""Jobs in containers: the order, the file of the runner, what the engine says, and the record of the end."""
