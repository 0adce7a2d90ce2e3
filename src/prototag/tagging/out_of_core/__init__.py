"""Learning from more images than memory holds, or an exact kernel can take.

The same method as :mod:`prototag.tagging.stages`, with nothing of n x t numbers in memory: every
stage is sums over blocks of rows, or work on blocks of tags, that an engine runs on threads or on a
cluster. What is chosen is chosen by a sample of the images. Prototypes are means of images, those
of one fold each, and an image is coded over the prototypes of the other folds: nothing that it is
judged by has seen it. What a stage has learned is kept in a folder, from which an interrupted fit
goes on.
"""
