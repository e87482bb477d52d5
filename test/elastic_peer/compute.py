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


def compute(case):
    """Batch and counts as the scheduler asks for them, and the micro-batch as the job does."""
    config, world = case["config"], case["world_size"]
    os.environ["WORLD_SIZE"] = str(world)
    try:
        batch, counts = compute_elastic_config(config, "0.19.7")
    except Exception as error:  # it has no kind of its own for most of them
        return {"refused": f"{type(error).__name__}: {error}"}
    answer = {"final_batch_size": int(batch), "valid_gpus": [int(n) for n in counts or []], "micro_batch_size": None}
    try:
        answer["micro_batch_size"] = compute_elastic_config(config, "0.19.7", world)[2]
    except (ElasticityIncompatibleWorldSize, TypeError):  # the latter where there is no count at all
        pass
    except AssertionError as error:
        return {"refused": f"{type(error).__name__}: {error}"}
    return answer


for line in sys.stdin:
    print(json.dumps(compute(json.loads(line))))
