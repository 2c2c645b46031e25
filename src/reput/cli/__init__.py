"""The command line: one module or folder for each verb. All output goes through `output`."""
