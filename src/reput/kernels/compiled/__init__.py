"""The compiled kernels (numba): each is the fast twin of one in `reput.kernels.reference`, with the same arguments.

`reput.kernels` imports each module when a function there asks for it. May import `formats` and the layouts of
`kernels`, no twin and no file.
"""
