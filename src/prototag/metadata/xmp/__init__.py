"""XMP packets: reading keywords, and writing tags without changing any other byte.

``xml_tree`` parses a packet with byte positions and splices it, ``packet`` reads keywords and
marks, ``packet_editor`` merges tags into a packet and removes them.
"""
