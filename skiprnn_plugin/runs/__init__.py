"""A trained run: load it, evaluate it, read its log, compare it with others and with the paper's tables, and let it
predict a user's own sequences."""
