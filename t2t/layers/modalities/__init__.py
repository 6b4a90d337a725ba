"""How features become vectors, and vectors become what is predicted; any body of a model meets any kind of feature."""
