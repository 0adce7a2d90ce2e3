def inspect() -> None:
    """x"""
