"""What can be tuned: typed sections, Tensor2Tensor's override grammar, and one file of named sets a model family."""
