"""The command line, one verb a file; output goes through one seam."""
