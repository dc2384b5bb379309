"""Who calls, and who may run now: keys, tenants, permits, queues, priorities, budgets.

Without I/O or clock. ``Limiter`` (or ``RefillLimiter``) and ``Scheduler`` answer to the
same four verbs, ``Admission`` in ticket.py.
"""
