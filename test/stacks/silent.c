/* SPDX-License-Identifier: Apache-2.0
 *
 * Built without unwind tables: with frame pointers a walk goes on by their chain, without them it must stop.
 */
#include "test/stacks/steps.h"

long STEP_NAME(long (*next)(int), int depth);
long STEP_NAME(long (*next)(int), int depth) {
    long bytes[40];
    touch(bytes);
    long below = next(depth);
    touch(bytes);
    return below + 1;
}
