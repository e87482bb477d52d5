/* SPDX-License-Identifier: Apache-2.0
 *
 * Lives here: the rules. Must not live here: system calls.
 */
#include "analyzer/run/first_death.h"

#include <signal.h>

enum { SIGNAL_BITS = 0x7f };

bool ending_is_requested(int status) {
    int number = status & SIGNAL_BITS;
    return number == SIGHUP || number == SIGINT || number == SIGQUIT || number == SIGTERM;
}

/* The process did it to itself: no other one's end makes it end so, whichever came first. (A library that loses a
 * partner may well call abort or exit.) */
static bool is_crash(int status) {
    int number = status & SIGNAL_BITS;
    return number == SIGSEGV || number == SIGBUS || number == SIGFPE || number == SIGILL;
}

/* Whether another process, or several, ended in the same way. */
static bool has_company(const struct ending *endings, size_t count, size_t at) {
    for (size_t i = 0; i < count; i++)
        if (endings[i].end != END_NONE && endings[i].pid != endings[at].pid && endings[i].status == endings[at].status)
            return true;
    return false;
}

static size_t earliest_ending(const struct ending *endings, size_t count) {
    size_t first = count;
    for (size_t i = 0; i < count; i++)
        if (endings[i].end != END_NONE && (first == count || endings[i].order < endings[first].order))
            first = i;
    return first;
}

/* The process that crashed where all the others were killed or did as they were told; `count`: none or several. */
static size_t only_crash(const struct ending *endings, size_t count) {
    size_t found = count;
    for (size_t i = 0; i < count; i++) {
        if (endings[i].end != END_BAD || !is_crash(endings[i].status))
            continue;
        if (found < count && endings[i].pid != endings[found].pid)
            return count;
        found = found < count ? found : i;
    }
    return found;
}

/* Who wants a job to end asks all its processes. Where one alone was asked, as by a memory watcher, and all the others
 * were killed, as launchers do that see one end, that is the one; `count`: there is none, or no other. */
static size_t only_asked(const struct ending *endings, size_t count) {
    size_t found = count, killed = 0;
    for (size_t i = 0; i < count; i++) {
        if (endings[i].end == END_NONE)
            continue;
        bool asked = ending_is_requested(endings[i].status);
        if (!asked && endings[i].status != SIGKILL)
            return count;
        if (asked && found < count && endings[i].pid != endings[found].pid)
            return count;
        found = asked && found == count ? i : found;
        killed += !asked;
    }
    return killed > 0 ? found : count;
}

size_t first_death(const struct ending *endings, size_t count, bool *sure) {
    size_t first = earliest_ending(endings, count), crash = only_crash(endings, count);
    size_t asked = only_asked(endings, count);
    *sure = false;
    if (asked < count)
        return asked;
    if (first == count || endings[first].end == END_SAID || ending_is_requested(endings[first].status))
        return count;
    bool telling = endings[first].status != 0 && endings[first].status != SIGKILL;
    *sure = endings[first].alone || crash < count || (telling && !has_company(endings, count, first));
    return crash < count && !endings[first].alone ? crash : first;
}
