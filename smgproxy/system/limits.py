"""Ask the kernel for as much as it will give this service."""

import resource


def raise_open_files_limit() -> int:
    """Lift the limit on open files to the hard limit; give what is now in force.

    Two descriptors a request, client's and worker's: the usual soft limit of
    1024 would end at some 500 streams.
    """
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft == hard:
        return soft
    try:
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    except (OSError, ValueError):
        # A sandbox may forbid the call; the service still runs with less.
        return soft
    return hard
