def similar() -> None:
    """x"""
