"""Data: tasks gathered, pairs verified, rows shipped."""
