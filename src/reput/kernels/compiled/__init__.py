"""The compiled kernels (numba): each is the fast twin of one in `reput.kernels.reference`, with the same arguments.

Imported only by way of `reput.kernels.kernels`. May import `formats` and the layouts of `kernels`, no twin and no file.
"""
