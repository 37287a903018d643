"""Boxes and forms over a screen."""
