/* SPDX-License-Identifier: Apache-2.0 */
#include "shim/intercept/stack_sources.h"

#include "shim/intercept/nvtx.h"
#include "shim/stacks/python.h"
#include "shim/stacks/stacks.h"

void stack_sources_add(void) {
    if (stacks_wants_source(0))
        stacks_add_source(0, &python_source);
    if (stacks_wants_source(1))
        stacks_add_source(1, &label_source);
}
