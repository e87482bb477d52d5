/* SPDX-License-Identifier: Apache-2.0 */
#include "shim/comm/members.h"

#include "shim/base/os.h"

static void members_free(struct members *m) {
    if (m->memory)
        os_unmap(m->memory, m->bytes);
}

void member_groups_free(struct member_groups *m) {
    members_free(&m->local);
    members_free(&m->remote);
}

uint32_t members_count_runs(const struct members *m, struct member_run *runs) {
    uint32_t count = 0;
    for (uint32_t i = 0; i < m->count; count++) {
        int stride = i + 1 < m->count ? m->ranks[i + 1] - m->ranks[i] : 1;
        uint32_t length = 1;
        while (i + length < m->count && m->ranks[i + length] - m->ranks[i + length - 1] == stride)
            length++;
        if (length == 2 && i + 2 < m->count) /* two are no pattern yet: the second may begin one */
            length = 1;
        if (runs)
            runs[count] = (struct member_run){m->ranks[i], length, stride};
        i += length;
    }
    return count;
}
