"""The arrays and records that kernels are called with, made once for both twins.

May import `formats` and `errors`. A kernel reads a field by its Layout: no offset is typed by hand.
"""
