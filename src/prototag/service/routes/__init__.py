"""Handlers of the API, one module for each subject, with tables of operations."""
