"""Annotation of pictures: the API of the command line, the service, the library and programs."""
