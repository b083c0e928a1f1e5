"""The checks of `taskplane doctor`."""
