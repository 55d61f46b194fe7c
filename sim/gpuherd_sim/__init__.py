"""Shipped stand-ins for what a machine may lack: GPUs, and Ray in virtual time. Also the demo."""
