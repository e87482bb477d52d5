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

/* Whether another process, or several, were killed: as a launcher does that sees one end. */
static bool others_were_killed(const struct ending *endings, size_t count, size_t at) {
    for (size_t i = 0; i < count; i++)
        if (endings[i].end != END_NONE && endings[i].pid != endings[at].pid && endings[i].status == SIGKILL)
            return true;
    return false;
}

/* Who wants a job to end asks all its processes: one that was asked alone, as by a memory watcher, is the first to die.
 * Where another was asked as well, or ended before it was, it is not known to be alone in that. */
static bool may_be_the_job(const struct ending *endings, size_t count, size_t first) {
    return ending_is_requested(endings[first].status) &&
           (!endings[first].alone || has_company(endings, count, first) || !others_were_killed(endings, count, first));
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

size_t first_death(const struct ending *endings, size_t count, bool *sure) {
    size_t first = earliest_ending(endings, count), crash = only_crash(endings, count);
    *sure = false;
    if (first == count || endings[first].end == END_SAID || may_be_the_job(endings, count, first))
        return count;
    bool requested = ending_is_requested(endings[first].status);
    bool telling = endings[first].status != 0 && endings[first].status != SIGKILL && !requested;
    *sure = (endings[first].alone && !requested) || crash < count || (telling && !has_company(endings, count, first));
    return crash < count && !endings[first].alone ? crash : first;
}
