"""What can be asked, one module for each subject; each has a table of its operations."""
