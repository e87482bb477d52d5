/* SPDX-License-Identifier: Apache-2.0
 *
 * Copies of dumps that processes on other hosts write now, in a directory of our own that goes when we do: the job's
 * directory stays as it is.
 * Lives here: that directory, fetching into it again and again.
 * Must not live here: how a dump is fetched (collect.h), when.
 */
#ifndef COMMTAP_COLLECT_SCRATCH_H
#define COMMTAP_COLLECT_SCRATCH_H

#include "analyzer/collect/collect.h"
#include "analyzer/dumps/set.h"

struct scratch {
    char path[64]; /* empty: there is none */
    int directory;
};

/* Makes the directory, in TMPDIR or /tmp. False with errno. */
bool scratch_open(struct scratch *scratch);
/* Removes it with all that is in it. */
void scratch_close(struct scratch *scratch);

/* Fetches what sound stubs stand for that belong to the user; what was fetched when its process had ended is not
 * fetched again. Returns how many dumps are there now, as they were a moment ago. */
size_t scratch_fetch(struct scratch *scratch, const struct dump_stub *stubs, size_t count,
                     const struct collect_request *request);

/* Whether that dump lies in the scratch directory and was still written to when it was fetched. */
bool scratch_is_used(const struct scratch *scratch, const char *dump_path);

#endif
