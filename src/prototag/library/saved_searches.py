"""Saved searches: names and the addresses of the page that show them."""

from __future__ import annotations

import time

from prototag.errors import InputError, UnknownNameError
from prototag.library.database import Store

MAX_SEARCHES = 200
MAX_NAME_LENGTH = 100
MAX_ADDRESS_LENGTH = 4_000


def searches(store: Store) -> dict[str, str]:
    """Return the addresses by name, the latest first."""
    with store.read() as conn:
        rows = conn.execute("SELECT name, address FROM searches ORDER BY saved_at DESC, name")
        return dict(rows.fetchall())


def save(store: Store, name: str, address: str) -> None:
    """Save a search, or replace that of the same name."""
    name = " ".join(name.split())
    if not 1 <= len(name) <= MAX_NAME_LENGTH:
        raise InputError(f"the name of a search has 1 to {MAX_NAME_LENGTH} characters.")
    if len(address) > MAX_ADDRESS_LENGTH:
        raise InputError(f"the search has more than {MAX_ADDRESS_LENGTH:,} characters: shorten it.")
    with store.write() as conn:
        conn.execute(
            "INSERT OR REPLACE INTO searches VALUES (?, ?, ?)", (name, address, time.time())
        )
        (count,) = conn.execute("SELECT count(*) FROM searches").fetchone()
        if count > MAX_SEARCHES:
            raise InputError(f"there are {MAX_SEARCHES} saved searches: delete one first.")


def delete(store: Store, name: str) -> None:
    """Delete a saved search."""
    with store.write() as conn:
        if not conn.execute("DELETE FROM searches WHERE name = ?", (name,)).rowcount:
            raise UnknownNameError(f"there is no saved search {name!r}.")
