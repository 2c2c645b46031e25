"""The kernels in plain Python: the specification that the compiled ones are tested against, module by module.

May import `formats` and the layouts of `kernels`. Each module has its fast twin in `reput.kernels.compiled`.
"""
