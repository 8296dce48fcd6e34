"""Script tasks: a gold file with functions and a test that calls them, judged by replaying the test's calls.

The trusted process runs the gold and its test, keeps what every call was given, and knows the answers; the candidate's
process gets one call after the other, as tensors, and never sees the gold, its test or its answers. See
docs/tritonbench.md.
"""
