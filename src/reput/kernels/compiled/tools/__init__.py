"""Tools of the compiled kernels: the compilation itself, loads and stores, hashes, checksums and rows found by a hash.

May import `formats` and each other. No kernel that has a twin is here.
"""
