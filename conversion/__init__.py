"""What others wrote by hand -> an environment file: Karpenter objects, device-plugin and mig-parted files, clusters.

Pure: objects in, text and a list of what could not be carried over out. Nothing here reads files or clusters.
"""
