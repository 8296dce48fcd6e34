"""From a task to a pair: a question in one of several wordings, a verified answer, and why it is built as it is."""
