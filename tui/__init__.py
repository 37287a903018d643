"""The console: screens and widgets. The only room that knows Textual; it reads the store and measures nothing."""
