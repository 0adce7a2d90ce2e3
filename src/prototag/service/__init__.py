"""The library and its model for browsers and other programs, on this computer."""
