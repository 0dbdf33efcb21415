"""Documents with a layout to keep."""
