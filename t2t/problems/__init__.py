"""What can be learnt: one file a family of problems; every module here is found by the registry."""
