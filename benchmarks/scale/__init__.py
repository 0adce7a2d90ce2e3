"""Out-of-core training: time and memory of each stage, and accuracy by number of images."""
