/* SPDX-License-Identifier: Apache-2.0 */
#include "test/crash/steps.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/ptrace.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "shim/format.h"

enum {
    WATCHED_MAX = 64,
    SLOTS_BEFORE = 20,         /* of the end of a page stepping begins, and ends as many records behind it */
    INSTRUCTIONS_MAX = 300000, /* about 2,000 are a record: five times what a turn of pages takes */
    TRIES_MAX = 20000
};

struct watched {
    const struct ring_page *page;
    struct ring_page before; /* as it was after the last instruction */
};

struct watch {
    const char *path;
    void *file;
    size_t bytes;
    struct watched pages[WATCHED_MAX];
    size_t count;
    struct steps_totals *totals;
};

/* ---- what must be true at each moment -------------------------------------------------------- */

/* Of a page that has a number, everything that is in use stays what it was until the number is taken away. */
static const char *broken_promise(const struct ring_page *before, const struct ring_page *now) {
    if (now->number == 0 || before->number == 0)
        return NULL;
    if (now->number != before->number)
        return "got another number without having been without one";
    if (now->first_ticket != before->first_ticket || now->base_ticks != before->base_ticks ||
        now->base_op != before->base_op || now->lane != before->lane)
        return "has another head under the same number";
    if (now->used < before->used)
        return "has fewer slots in use under the same number";
    if (memcmp(now->slots, before->slots, before->used * sizeof *before->slots) != 0)
        return "has a slot that changed after it was in use";
    return NULL;
}

static void look(struct watch *watch) {
    for (size_t i = 0; i < watch->count; i++) {
        struct watched *watched = &watch->pages[i];
        struct ring_page now;
        if (!memcmp(watched->page, &watched->before, sizeof now))
            continue;
        memcpy(&now, watched->page, sizeof now);
        const char *broken = broken_promise(&watched->before, &now);
        if (broken) {
            printf("%s: page %lu of lane %u %s (slots in use: %u, then %u)\n", watch->path, now.number, now.lane,
                   broken, watched->before.used, now.used);
            watch->totals->failures++;
        }
        watch->totals->pages += now.number != watched->before.number && now.number != 0;
        watch->totals->records += now.number == watched->before.number && now.used > watched->before.used;
        watched->before = now;
    }
}

/* Takes what there is now for sound: the process ran meanwhile. */
static void look_away(struct watch *watch) {
    for (size_t i = 0; i < watch->count; i++)
        watch->pages[i].before = *watch->pages[i].page;
}

/* The page that is being filled is one with nearly no slot left, in a ring that has gone round. */
static bool page_ends_soon(const struct watch *watch) {
    const struct ring_page *newest = &watch->pages[0].before;
    for (size_t i = 1; i < watch->count; i++)
        if (watch->pages[i].before.number > newest->number)
            newest = &watch->pages[i].before;
    return newest->number > watch->count && newest->used + SLOTS_BEFORE >= RING_PAGE_SLOTS;
}

/* ---- the dump -------------------------------------------------------------------------------- */

static bool open_dump(struct watch *watch) {
    struct stat status;
    int fd = open(watch->path, O_RDONLY | O_CLOEXEC);
    if (fd < 0 || fstat(fd, &status)) {
        perror(watch->path);
        if (fd >= 0)
            close(fd);
        return false;
    }
    watch->bytes = (size_t)status.st_size;
    watch->file = mmap(NULL, watch->bytes, PROT_READ, MAP_SHARED, fd, 0);
    close(fd);
    if (watch->file == MAP_FAILED) {
        perror(watch->path);
        return false;
    }
    return true;
}

static void list_pages(struct watch *watch) {
    const struct dump_header *header = watch->file;
    for (uint32_t s = 0; s < SECTIONS_MAX; s++) {
        const struct section *section = &header->sections[s];
        const struct ring_page *pages = (const struct ring_page *)((const char *)watch->file + section->offset);
        for (uint32_t i = 0; section->kind == SECTION_RING_PAGES && i < section->count; i++)
            if (watch->count < WATCHED_MAX)
                watch->pages[watch->count++] = (struct watched){.page = &pages[i], .before = pages[i]};
    }
}

/* ---- stepping -------------------------------------------------------------------------------- */

static bool stop(pid_t pid) {
    int status;
    return ptrace(PTRACE_INTERRUPT, pid, NULL, NULL) == 0 && waitpid(pid, &status, __WALL) == pid && WIFSTOPPED(status);
}

/* Lets it run, a moment at a time, until a page is about to end. False: it has ended, or there is no such moment. */
static bool approach(pid_t pid, struct watch *watch) {
    for (int i = 0; i < TRIES_MAX; i++) {
        look_away(watch);
        if (page_ends_soon(watch))
            return true;
        if (ptrace(PTRACE_CONT, pid, NULL, NULL))
            return false;
        nanosleep(&(struct timespec){0, 100000 + i % 7 * 10000}, NULL);
        if (!stop(pid))
            return false;
    }
    return false;
}

/* One instruction. Signals other than the step's own are handed on. False: the process has ended. */
static bool step(pid_t pid, int *signal) {
    int status;
    if (ptrace(PTRACE_SINGLESTEP, pid, NULL, (void *)(intptr_t)*signal) || waitpid(pid, &status, __WALL) != pid ||
        !WIFSTOPPED(status))
        return false;
    *signal = WSTOPSIG(status) == SIGTRAP ? 0 : WSTOPSIG(status);
    return true;
}

/* Over the end of a page, and some records of the next one. False: the process ended, or no page did. */
static bool step_over_page(pid_t pid, struct watch *watch) {
    struct steps_totals *totals = watch->totals;
    uint64_t pages = totals->pages, records = 0;
    int signal = 0;
    for (int i = 0; i < INSTRUCTIONS_MAX && !totals->failures; i++) {
        if (!step(pid, &signal))
            return false;
        totals->instructions++;
        look(watch);
        if (totals->pages == pages)
            records = totals->records;
        else if (totals->records - records >= SLOTS_BEFORE)
            return true;
    }
    return totals->failures > 0;
}

bool steps_check(pid_t pid, const char *path, uint64_t pages, struct steps_totals *totals) {
    struct watch watch = {.path = path, .totals = totals};
    if (ptrace(PTRACE_SEIZE, pid, NULL, NULL) || !stop(pid)) {
        printf("crash: processes cannot be stepped here (%s)\n", strerror(errno));
        return false;
    }
    if (!open_dump(&watch)) {
        totals->failures++;
        return true;
    }
    list_pages(&watch);
    while (totals->pages < pages && !totals->failures)
        if (!approach(pid, &watch) || !step_over_page(pid, &watch)) {
            printf("%s: stepping ended after %lu instructions and %lu pages\n", path, totals->instructions,
                   totals->pages);
            totals->failures++;
        }
    munmap(watch.file, watch.bytes);
    return true;
}
