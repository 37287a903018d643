"""The kinds of jobs: one module each, which `registry.MODULES` lists; `kind.Kind` says what a kind has to offer."""
