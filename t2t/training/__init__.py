"""Training: updates, the callbacks that run every n updates, and the engines and devices that compute."""
