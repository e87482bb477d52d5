/* SPDX-License-Identifier: Apache-2.0
 *
 * A library that is loaded, walked through and unloaded again and again; VARIANT makes several of one size whose frames
 * differ although their return addresses are the same.
 */
#include "test/stacks/steps.h"

static long (*next)(int);

void plugin_use(long (*with)(int));
void plugin_use(long (*with)(int)) {
    next = with;
}

/* One instruction decides how large the frame is: the code after it lies at the same addresses in every variant. */
long plugin_step(int depth);
long plugin_step(int depth) {
    char bytes[VARIANT * 256];
    touch(bytes);
    long below = next(depth);
    touch(bytes);
    return below + 1;
}
