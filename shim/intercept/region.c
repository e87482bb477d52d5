/* SPDX-License-Identifier: Apache-2.0 */
#include "shim/intercept/region.h"

#include <string.h>

#include "shim/base/os.h"
#include "shim/record/recorder.h"

static uint32_t opened; /* regions open now; a forked child goes on inside */

enum region region_marked_by(const struct knobs *knobs) {
    const char *text = knobs->region;
    return strcmp(text, "profiler") == 0       ? REGION_PROFILER
           : strcmp(text, "pcontrol") == 0     ? REGION_PCONTROL
           : *knob_region_ranges(text) != '\0' ? REGION_RANGES
                                               : REGION_NONE;
}

/* Several threads may be here at once. Whoever changed the count last looks at it last, too. */
static void follow(void) {
    uint32_t seen;
    do {
        seen = __atomic_load_n(&opened, __ATOMIC_SEQ_CST);
        if (seen > 0)
            __atomic_fetch_and(&recorder.paused, (uint8_t)~QUIET_OUTSIDE, __ATOMIC_SEQ_CST);
        else
            __atomic_fetch_or(&recorder.paused, QUIET_OUTSIDE, __ATOMIC_SEQ_CST);
    } while (seen != __atomic_load_n(&opened, __ATOMIC_SEQ_CST));
}

void region_begin(void) {
    if (region_marked_by(&recorder.knobs) == REGION_NONE)
        return;
    copy_text(recorder.header->region, sizeof recorder.header->region, recorder.knobs.region);
    follow();
}

bool region_is_range(const char *text) {
    return knobs_match(knob_region_ranges(recorder.knobs.region), text);
}

void region_open(void) {
    __atomic_fetch_add(&opened, 1, __ATOMIC_SEQ_CST);
    follow();
}

void region_close(void) {
    __atomic_fetch_sub(&opened, 1, __ATOMIC_SEQ_CST);
    follow();
}

void region_set(bool inside) {
    __atomic_store_n(&opened, inside, __ATOMIC_SEQ_CST);
    follow();
}
