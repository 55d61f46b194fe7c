"""The thin outside: clock, logs, files, broker, HTTP and GCS doors. No decision lives here."""
