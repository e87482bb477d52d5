/* SPDX-License-Identifier: Apache-2.0
 *
 * What can be wrong with a dump.
 * Lives here: faults by the words of the format: a field of an item, an item over another, an entry of the section
 * table, a definition, the header.
 * Must not live here: what a job does (job.h).
 */
#ifndef COMMTAP_TEST_FUZZ_FAULTS_H
#define COMMTAP_TEST_FUZZ_FAULTS_H

#include "test/fuzz/step.h"
#include "test/support/dump_builder.h"

enum fault { FAULT_ITEM, FAULT_COPY, FAULT_SECTION, FAULT_DEFINITION, FAULT_HEADER, FAULT_BYTES, FAULT_CUT, FAULTS };

/* Damages a dump; FAULT_COPY takes from `other`, which may be the same. Returns how many bytes the file has then, at
 * most `bytes`. */
size_t fault_apply(enum fault fault, struct dump_builder *builder, struct dump_builder *other, size_t bytes,
                   const struct fuzz_step *step);

#endif
