"""Where tasks come from. `source` reads a user's file."""
