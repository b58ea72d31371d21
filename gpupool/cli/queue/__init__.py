"""cli/queue"""
