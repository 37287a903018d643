"""Charts over time, drawn in character cells."""
