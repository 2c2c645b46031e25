"""Bytes between processes: frames of the remoting protocol, and the text by which Prometheus reads metrics.

May import `layout` and `java`.
"""
