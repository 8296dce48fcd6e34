"""The command line: one file per verb, `main` for what they share. Results on stdout, everything else on stderr."""
