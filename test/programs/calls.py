# SPDX-License-Identifier: Apache-2.0
#
# Calls MPI through mpi4py from methods, comprehensions, generators and lambdas, and back through C. Lines that make a
# call bear a mark; test_calls.py knows the tree.
import functools

import numpy
from mpi4py import MPI

world = MPI.COMM_WORLD


class Model:
    def forward(self, values):
        result = numpy.empty_like(values)
        self.reduce(values, result)  # @forward
        return result

    def reduce(self, values, result):
        world.Allreduce(values, result)  # @reduce


def numbers():
    for _ in range(3):
        world.Barrier()  # @generator
        yield 1


def train(model):
    for _ in range(4):
        model.forward(numpy.ones(8))  # @train


if __name__ == "__main__":
    train(Model())  # @main-train
    total = sum(numbers())  # @main-sum
    fold = lambda a, b: world.allreduce(a) + b  # @lambda
    functools.reduce(fold, [1, 2, 3])  # @main-fold
