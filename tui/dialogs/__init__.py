"""Dialogs and forms over a screen."""
