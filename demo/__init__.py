"""The demonstration that `make demo` runs: `python -m demo`. It uses the package and is no part of it."""
