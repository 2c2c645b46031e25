"""Engines that run tasks, Spark, threads or a loop, and their choice; the start of Spark's contexts and workers.

May import no other folder of pipeline, except that workers load the modules of tasks before they are forked.
"""
