# SPDX-License-Identifier: Apache-2.0
#
# What DeepSpeed works out for configurations: lines of JSON in, lines of JSON out. Runs where deepspeed/elasticity is;
# main.py starts it.
import json
import os
import sys

try:
    import packaging.version  # noqa: F401
except ImportError:  # pip brings its own
    import pip._vendor.packaging as packaging
    import pip._vendor.packaging.version
    sys.modules["packaging"] = packaging
    sys.modules["packaging.version"] = packaging.version

from deepspeed.elasticity.config import ElasticityIncompatibleWorldSize
from deepspeed.elasticity.elasticity import compute_elastic_config


def started_with(config, most):
    """Numbers of ranks with which a job starts, and their batches."""
    found = {}
    for ranks in range(1, most + 1):
        try:
            found[str(ranks)] = int(compute_elastic_config(config, "0.19.7", ranks)[0])
        except (ElasticityIncompatibleWorldSize, AssertionError):
            pass
    return found


def compute(case):
    """Batch and counts as the scheduler asks for them with GPUs, and the micro-batch as the job does with ranks."""
    config, ranks = case["config"], case["ranks"]
    os.environ["WORLD_SIZE"] = str(case["world_size"])
    try:
        batch, counts = compute_elastic_config(config, "0.19.7")
    except Exception as error:  # it has no kind of its own for most of them
        return {"refused": f"{type(error).__name__}: {error}"}
    answer = {"final_batch_size": int(batch), "valid_gpus": [int(n) for n in counts or []], "micro_batch_size": None}
    try:
        if ranks:
            answer["micro_batch_size"] = compute_elastic_config(config, "0.19.7", ranks)[2]
    except (ElasticityIncompatibleWorldSize, TypeError):  # the latter where there is no count at all
        pass
    except AssertionError as error:
        return {"refused": f"{type(error).__name__}: {error}"}
    if not answer["micro_batch_size"] and config["elasticity"]["version"] == 0.2:
        answer["starts"] = started_with(config, case["most"])
    return answer


for line in sys.stdin:
    print(json.dumps(compute(json.loads(line))))
