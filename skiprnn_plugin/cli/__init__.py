"""The console commands: a file or a package for each. They read arguments, and print or draw."""
