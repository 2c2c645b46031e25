"""The store as a whole.

`disk` reads what lies in its folder; `owner` decides who may change it; `recover` finds the log's end; `progress` keeps
consumer progress; `read`, `open` and `write` are an open store; `info` and `compare` describe stores.
A folder imports only folders of a lower level (`tests/test_tidy.py` lists the levels).
"""
