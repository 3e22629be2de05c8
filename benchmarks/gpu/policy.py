def suggest(log):
    pass
