"""Engines that run tasks: Spark, or a loop in this process; and the start of Spark's contexts and workers.

May import no other folder of pipeline, except that workers load the modules of tasks before they are forked.
"""
