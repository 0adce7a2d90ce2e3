"""How long the rivals that search among images take, beside MCDL."""
