"""Every workaround for a fault of fairseq: what goes wrong without it, and what would make it unneeded."""
