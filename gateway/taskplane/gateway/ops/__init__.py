"""The routes for operators."""
