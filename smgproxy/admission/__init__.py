"""Who calls, and who may run now; pure, ``now`` is an argument."""
