"""What the gateway tells its operators: counters, the metrics page, the logs."""
