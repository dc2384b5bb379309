"""The tests; a package, so that none that is installed can take its name."""
