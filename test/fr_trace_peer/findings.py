# SPDX-License-Identifier: Apache-2.0
#
# What PyTorch's fr_trace finds about one collective in a directory of flight recorders, as a line of JSON: the ranks
# that did something else than the first one, and those that did not come. Runs where that is; main.py starts it.
import contextlib
import io
import json
import pickle
import sys
import tempfile

from torch.distributed.flight_recorder import fr_trace


def main(directory, number):
    with tempfile.NamedTemporaryFile() as output:
        with contextlib.redirect_stdout(io.StringIO()):
            fr_trace.main([directory, "-o", output.name])
        _, database = pickle.load(output)
    of_it = [one for one in database.collectives if one.collective_seq_id == int(number)]
    print(json.dumps({"differ": sorted({rank for one in of_it for rank in one.mismatch_collectives or {}}),
                      "missing": sorted({rank for one in of_it for rank in one.missing_ranks or ()})}))


main(*sys.argv[1:])
