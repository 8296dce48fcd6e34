"""Files of an exported package: `binding.py` as it is, the others with `$name` and the like filled in."""
