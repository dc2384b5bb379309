"""The words every room shares: messages, exchanges, flow control, errors, clocks."""
