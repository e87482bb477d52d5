/* SPDX-License-Identifier: Apache-2.0
 *
 * align/: traces -> one clock for all hosts, with an error bound.
 * Lives here: building that clock. Must not live here: using it (common_clock.h).
 */
#ifndef COMMTAP_ALIGN_ALIGN_H
#define COMMTAP_ALIGN_ALIGN_H

#include "analyzer/align/common_clock.h"

/* Builds the clock of `count` >= 1 dumps, which must outlive it. Result does not depend on anything but the dumps and
 * their order. Returns false when memory is short. The caller frees with common_clock_free. */
bool common_clock_build(struct common_clock *clock, struct dump *const *dumps, size_t count);

#endif
