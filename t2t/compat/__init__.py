"""Names of other programs, for plug-ins that were written for them."""
