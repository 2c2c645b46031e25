"""The kernels in plain Python: the specification that the compiled ones are tested against, module by module.

May import `formats`, the layouts of `kernels`, and each other.
Each module has its fast twin in `reput.kernels.compiled`, and `memory` in the tools there.
"""
