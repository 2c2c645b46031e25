"""Bytes between processes: frames of the remoting protocol, handles of recalls, and the text of Prometheus' metrics.

May import `layout` and `java`.
"""
