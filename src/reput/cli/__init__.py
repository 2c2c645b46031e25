"""The command line: one module or folder for each verb. All output goes through `output`.

A verb turns options into a call of the public face, or of the store on disk, and its answer into text and an exit
code. May import every other folder of the package. A verb's folder imports `shared` and no other verb.
"""
