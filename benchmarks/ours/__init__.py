"""The project's side of the comparisons: each module runs in a separate process of the project's interpreter."""
