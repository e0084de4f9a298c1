"""Running as a process among others: metrics, health, logs, and the HTTPS server that shows them."""
