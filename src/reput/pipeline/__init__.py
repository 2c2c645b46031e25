"""The Spark jobs: plan, decode, stitch, dispatch, sink, publish."""
