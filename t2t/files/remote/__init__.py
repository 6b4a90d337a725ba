"""Files of object stores: a process that moves them, the mirror of them on this machine, and who owns a folder."""
