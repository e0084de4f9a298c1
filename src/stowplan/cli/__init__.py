"""The `stowplan` command: one file per subcommand.

This room turns words on a command line into calls of the rooms above it, and answers into text or JSON. It
decides nothing itself: whatever is worth knowing about a pod or a node is computed elsewhere, so that a user
of the library gets it too.
"""
