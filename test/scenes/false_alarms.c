/* SPDX-License-Identifier: Apache-2.0
 *
 * How often a rank is named where nobody is slow, and found where one is: many made-up jobs through the whole pipeline.
 * Lives here: the list of situations and the counting. Prints one line per situation.
 * Must not live here: thresholds; who calls this judges (test/unit does, in small numbers).
 *
 *   false_alarms [JOBS]     jobs per situation, 200 by default
 */
#include <stdio.h>
#include <stdlib.h>

#include "analyzer/stragglers/stragglers.h"
#include "test/scenes/trial.h"

int main(int argc, char **argv) {
    unsigned jobs = argc > 1 ? (unsigned)strtoul(argv[1], NULL, 10) : 200;
    unsigned null_jobs = 0, alarms = 0, planted = 0, found = 0;
    for (size_t i = 0; i < trial_count; i++) {
        struct trial_result result = trial_run(&trials[i], jobs, 1);
        printf("%-44s %5u jobs  named: right %5u wrong %5u  suspected: right %5u wrong %5u\n", trials[i].name, jobs,
               result.right, result.wrong, result.suspected_right, result.suspected_wrong);
        if (trials[i].planted) {
            planted += jobs;
            found += result.right;
        } else {
            null_jobs += jobs;
            alarms += result.wrong;
        }
    }
    printf("nobody slow: %u of %u jobs name somebody\nplanted: %u of %u found\n", alarms, null_jobs, found, planted);
    return 0;
}
