"""The project's side of the comparisons: each module is run as a process of its own by the project's interpreter."""
