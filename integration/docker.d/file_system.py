"""Runs another program with PyTorch's `file_system` sharing strategy, whose segments keep a name while they live.

usage: file_system.py PROGRAM [ARGUMENT ...]
"""
import runpy
import sys

import torch.multiprocessing

torch.multiprocessing.set_sharing_strategy("file_system")
sys.argv = sys.argv[1:]
runpy.run_path(sys.argv[0], run_name="__main__")
