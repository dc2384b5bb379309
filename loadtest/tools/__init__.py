"""The load tools. The .py ones stand in where there is no C compiler or no wrk."""
