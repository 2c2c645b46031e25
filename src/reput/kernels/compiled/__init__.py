"""The compiled kernels (numba); imported only by way of `reput.kernels.kernels`."""
