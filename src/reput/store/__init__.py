"""The store as a whole.

`metadata` has topics, groups and committed offsets; `disk` reads the store's folder; `owner` decides who may change it;
`recover` finds the log's end; `progress` keeps consumer progress; `read`, `open` and `write` are an open store;
`pending` shows the work that waits in it; `info` and `compare` describe stores.
A folder imports only folders of a lower level (`tests/tidy/test_arrows.py` lists the levels).
"""
