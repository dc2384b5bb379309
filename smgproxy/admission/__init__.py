"""Who may run now: permits, queues and priority classes, without I/O or clock.

``Limiter`` (or ``RefillLimiter``) and ``Scheduler`` answer to the same four verbs,
``Admission`` in ticket.py; dispatch/serve.py asks whichever of them the options made.
"""
