/* SPDX-License-Identifier: Apache-2.0
 *
 * Nothing is shared, and nothing is asked of the others: their dumps are there anyway.
 */
#include "shim/intercept/neighbours.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "shim/base/os.h"
#include "shim/record/recorder.h"

#define ROWS           2048u /* far above what one node has: a section's worth */
#define LOOKED_AT_MOST 32u   /* in one beat; each look is a system call of 1 to 2 us */
#define LISTED_MOST    1024u /* calls for a part of the directory, each of 100 names and more */
#define DIGITS         16u
#define LONG_AGO_NS    UINT64_C(3600000000000) /* twice the half hour for which torch lets ranks wait for each other */

static struct {
    struct beat_row *rows; /* in the dump */
    bool before[ROWS];     /* comes before this process */
    uint32_t used;
    uint32_t next; /* to be looked at */
    char directory[DUMP_PATH_BYTES];
    char prefix[DUMP_PATH_BYTES]; /* of the names of this run's dumps, up to what is each one's own */
} neighbours;

/* ---- names ----------------------------------------------------------------------------------- */

static int digit_of(char c) {
    return c >= '0' && c <= '9' ? c - '0' : c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

/* The number in the name of a dump of this run; 0: it is none. */
static uint64_t number_in(const char *name) {
    size_t before = strlen(neighbours.prefix);
    uint64_t number = 0;
    if (strncmp(name, neighbours.prefix, before) != 0)
        return 0;
    for (size_t i = before; i < before + DIGITS; i++) {
        if (digit_of(name[i]) < 0)
            return 0;
        number = number << 4 | (uint64_t)digit_of(name[i]);
    }
    return strcmp(name + before + DIGITS, FORMAT_FILE_SUFFIX) == 0 ? number : 0;
}

/* From the paths of this process's dump; its own number, 0: they are of another form. */
static uint64_t read_names(void) {
    const struct dumpfile *file = &recorder.file;
    const char *name = strrchr(file->final_path, '/'), *end = strrchr(file->path, '/');
    size_t length = name ? strlen(++name) : 0, behind = DIGITS + strlen(FORMAT_FILE_SUFFIX);
    if (!end || length <= behind)
        return 0;
    copy_text(neighbours.directory, (size_t)(end - file->path) + 1, file->path);
    copy_text(neighbours.prefix, length - behind + 1, name);
    return number_in(name);
}

/* ---- who lives ------------------------------------------------------------------------------- */

/* A container may have the /proc of its host, where processes have other numbers. */
static bool proc_has_our_numbers(void) {
    char target[24];
    int64_t number = 0;
    ssize_t length = readlink("/proc/self", target, sizeof target - 1);
    target[length > 0 ? length : 0] = '\0';
    return parse_signed(target, &number) && number == getpid();
}

/* What a process runs is told as long as it has memory: not of one that has ended and that nobody has waited for. */
static bool lives(int64_t pid) {
    char path[64], target[8];
    struct text t;
    text_begin(&t, path, sizeof path);
    text_add(&t, "/proc/");
    text_add_signed(&t, pid);
    text_add(&t, "/exe");
    if (readlink(path, target, sizeof target) >= 0)
        return true;
    if (errno == ENOENT && access("/proc/self/exe", F_OK) == 0 && proc_has_our_numbers())
        return false;
    return kill((pid_t)pid, 0) == 0 || errno == EPERM;
}

static void look_at(struct beat_row *row) {
    uint64_t now = os_monotonic_ns();
    if (lives(row->pid))
        __atomic_store_n(&row->seen_ns, now, __ATOMIC_RELAXED);
    else
        __atomic_store_n(&row->gone_ns, os_monotonic_ns(), __ATOMIC_RELAXED);
}

void neighbours_look(void) {
    uint32_t others = neighbours.used - 1;
    __atomic_store_n(&neighbours.rows[0].seen_ns, os_monotonic_ns(), __ATOMIC_RELAXED);
    for (uint32_t i = 0; i < others && i < LOOKED_AT_MOST; i++) {
        struct beat_row *row = &neighbours.rows[1 + neighbours.next++ % others];
        if (!row->gone_ns)
            look_at(row);
    }
}

uint32_t neighbours_before(int64_t *pids, uint32_t most, uint32_t *known) {
    uint32_t count = 0;
    *known = 0;
    for (uint32_t i = 1; i < neighbours.used; i++) {
        struct beat_row *row = &neighbours.rows[i];
        if (!neighbours.before[i])
            continue;
        ++*known;
        if (row->gone_ns || (look_at(row), row->gone_ns))
            continue;
        if (count < most)
            pids[count] = row->pid;
        count++;
    }
    return count;
}

/* ---- rows ------------------------------------------------------------------------------------ */

static struct beat_row *add_row(uint64_t dump, int64_t pid, bool before, uint64_t seen_ns) {
    struct beat_row *row = &neighbours.rows[neighbours.used];
    if (neighbours.used == ROWS || !dumpfile_make_room(&recorder.file, row, sizeof *row))
        return NULL;
    neighbours.before[neighbours.used++] = before;
    row->pid = pid;
    row->seen_ns = seen_ns;
    __atomic_store_n(&row->dump, dump, __ATOMIC_RELEASE);
    return row;
}

bool neighbours_begin(void) {
    uint64_t own = recorder.file.place == PLACE_MEMORY ? 0 : read_names();
    if (!own)
        return false;
    neighbours.rows = dumpfile_next_section(&recorder.file, SECTION_BEATS, 0, ROWS, sizeof *neighbours.rows);
    if (!neighbours.rows)
        return false;
    add_row(own, recorder.header->pid, false, os_monotonic_ns());
    return neighbours.used == 1;
}

/* ---- finding them ---------------------------------------------------------------------------- */

static bool is_known(uint64_t dump) {
    for (uint32_t i = 0; i < neighbours.used; i++)
        if (neighbours.rows[i].dump == dump)
            return true;
    return false;
}

/* Each may be what somebody else put there. */
static bool is_neighbour(const struct dump_header *header) {
    const struct dump_header *own = recorder.header;
    return memcmp(header->magic, FORMAT_MAGIC, sizeof header->magic) == 0 && header->version == FORMAT_VERSION &&
           header->world_id == own->world_id && own->pid_namespace && header->pid_namespace == own->pid_namespace &&
           header->time_namespace == own->time_namespace &&
           memcmp(header->boot_id, own->boot_id, sizeof header->boot_id) == 0 && header->pid > 0 &&
           header->pid <= INT32_MAX && !(header->state & STATE_EXITED);
}

static bool comes_before(const struct dump_header *header) {
    const struct dump_header *own = recorder.header;
    return own->local_rank >= 0 ? header->local_rank >= 0 && header->local_rank < own->local_rank
                                : header->pid < own->pid;
}

/* When a process began to record; 0: it has another clock, or so long ago that it is of another start. */
static uint64_t began_ns(const struct dump_header *header) {
    uint64_t now = ticks(), began = header->activated_ticks;
    if (header->clock_kind != recorder.header->clock_kind || began == 0 || began > now)
        return 0;
    uint64_t since = anchors_ns(&recorder.anchors, now - began), now_ns = os_monotonic_ns();
    return since < LONG_AGO_NS && since < now_ns ? now_ns - since : 0;
}

/* Who died before the first look is not there to be found, but its dump is: the others may wait for it. */
static void add_dead(uint64_t dump, const struct dump_header *header) {
    uint64_t began = began_ns(header);
    struct beat_row *row = began ? add_row(dump, header->pid, comes_before(header), began) : NULL;
    if (row)
        __atomic_store_n(&row->gone_ns, os_monotonic_ns(), __ATOMIC_RELAXED);
}

static void consider(int directory, const char *name, uint64_t dump) {
    static struct dump_header header; /* threads may have small stacks */
    struct stat status;
    int fd = openat(directory, name, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
    if (fd < 0)
        return;
    bool ours = os_fstat(fd, &status) && S_ISREG(status.st_mode) && status.st_uid == geteuid() &&
                pread(fd, &header, sizeof header, 0) == (ssize_t)sizeof header;
    close(fd);
    if (!ours || !is_neighbour(&header))
        return;
    if (lives(header.pid))
        add_row(dump, header.pid, comes_before(&header), os_monotonic_ns());
    else
        add_dead(dump, &header);
}

/* What getdents64() gives. */
struct entry {
    uint64_t inode;
    int64_t offset;
    unsigned short bytes;
    unsigned char type;
    char name[];
};

void neighbours_find(void) {
    static _Alignas(8) char list[8192];
    int directory = open(neighbours.directory, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    long bytes = 0;
    for (uint32_t i = 0; directory >= 0 && i < LISTED_MOST; i++) {
        if ((bytes = syscall(SYS_getdents64, directory, list, sizeof list)) <= 0)
            break;
        for (long at = 0; at < bytes; at += ((struct entry *)(list + at))->bytes) {
            const char *name = ((struct entry *)(list + at))->name;
            uint64_t dump = number_in(name);
            if (dump && !is_known(dump))
                consider(directory, name, dump);
        }
    }
    if (directory >= 0)
        close(directory);
}
