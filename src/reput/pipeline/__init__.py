"""The jobs over a store, in Spark or in this process.

`spark` runs tasks; `split` cuts and decodes the log; `build` makes indexes of that; `check`, `convert` and `follow`
use those three. A folder imports only folders before it.
"""
