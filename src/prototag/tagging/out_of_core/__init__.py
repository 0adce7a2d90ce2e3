"""Out-of-core training: for more images than memory holds or an exact kernel can take.

The stages are those of :mod:`prototag.tagging.pipeline`, with no array of n x t numbers in memory:
each is a sum over batches of rows, or processes batches of tags, on threads or on a cluster.
Hyperparameters are selected on a sample of the images. A prototype is a mean of images of one fold,
and an image is coded over the prototypes of the other folds, so that its scores are out-of-fold.
The stage cache, a folder, keeps the results of finished stages: an interrupted fit resumes there.
"""
