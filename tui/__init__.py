"""The console: screens and widgets. The only room that imports Textual; it reads the store and measures nothing."""
