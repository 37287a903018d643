"""Containers of Docker and Podman: where engines are, what they say, and what their containers use."""
