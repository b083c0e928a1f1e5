"""The web page: its built files, and how they are served."""
