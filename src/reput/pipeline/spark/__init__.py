"""Where tasks run: in Spark, or in this process; and how Spark's contexts and workers are begun.

May import no other folder of pipeline, except that workers load the modules of tasks before they are forked.
"""
