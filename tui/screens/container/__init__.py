"""The pages of containers: the list, and the screen of one container."""
