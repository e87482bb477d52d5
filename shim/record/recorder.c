/* SPDX-License-Identifier: Apache-2.0 */
#include "shim/record/recorder.h"

#include "shim/base/fork_page.h"

struct recorder recorder;
__thread struct thread *this_thread;

static const volatile uint32_t never_armed;
const volatile uint32_t *recorder_armed = &never_armed;

AT_START bool recorder_read_environment(void) {
    enum { NOT_READ = 1, NONE_GIVEN, GIVEN };
    static uint32_t environment = NOT_READ; /* not 0: then it lies in a page that is touched anyway */
    if (environment == NOT_READ) {
        environment = knobs_read(&recorder.knobs) ? GIVEN : NONE_GIVEN;
        if (environment == GIVEN && !knobs_enabled(&recorder.knobs))
            recorder.gave_up = true;
        if (environment == GIVEN && knobs_quiet(&recorder.knobs))
            messages_end();
    }
    return environment == GIVEN;
}

void recorder_switch_off(const char *why) {
    if (!*recorder_armed)
        return;
    fork_page()->armed = 0;
    recorder.gave_up = true;
    copy_text(recorder.header->trouble, sizeof recorder.header->trouble, why);
    __atomic_fetch_or(&recorder.header->state, STATE_SWITCHED_OFF, __ATOMIC_RELEASE);
    if (recorder.header->rank <= 0)
        message(why);
}

void recorder_choose_calls(void) {
    for (unsigned i = 0; i < commtap_call_count; i++)
        __atomic_store_n(&recorder.left_out[i],
                         knobs_match(recorder.knobs.ops, commtap_calls[i].name) ? 0 : QUIET_LEFT_OUT, __ATOMIC_RELAXED);
}

/* ---- threads --------------------------------------------------------------------------------- */

void *thread_scratch_more(struct thread *self, size_t bytes) {
    struct thread_part *scratch = &self->parts[PART_SCRATCH];
    struct thread_part more = {.bytes = bytes < 65536 ? 65536 : bytes * 2};
    more.memory = os_memory(more.bytes);
    if (!more.memory)
        return NULL;
    if (scratch->memory)
        os_unmap(scratch->memory, scratch->bytes);
    *scratch = more;
    return more.memory;
}
