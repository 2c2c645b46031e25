"""Is a store what its log says? The decode job again, with sinks that compare where a build writes.

May import `build`, `split` and `spark`.
"""
