"""Carries one environment's pools over to the next environment's file, except for intended differences.

Pure: texts of environment files in, text and findings out. Nothing here writes files.
"""
