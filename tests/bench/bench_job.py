"""A short benchmark in its own process: ``python bench_job.py ARCHIVES RESULTS``."""

import sys

import torch
from bench_data import tiny_encoder

from nutime.bench.methods import Finetune
from nutime.bench.results import ResultFile
from nutime.bench.run import run
from nutime.finetune import train as trainer

SETS = ("Chinatown", "Coffee", "BeetleFly")


def work(archives, results):
    torch.set_num_threads(1)
    usual, trainer.MIN_STEPS = trainer.MIN_STEPS, 1
    method = Finetune("nutime-tiny", tiny_encoder(), n_estimators=1, params={"epochs": 12})
    try:
        run("finetune", [method], SETS, ResultFile(results), data_dir=str(archives))
    finally:
        trainer.MIN_STEPS = usual


if __name__ == "__main__":
    work(*sys.argv[1:])
