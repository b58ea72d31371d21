"""One environment's pools -> the next environment's file, except for the differences that are meant to stay.

Pure: texts of environment files in, text and findings out. Nothing here writes files.
"""
