"""Sources of the energy that the machine uses."""
