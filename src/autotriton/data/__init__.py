"""Training data: tasks gathered from three sources, and what is made of them. See docs/data.md."""
