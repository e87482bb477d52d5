/* SPDX-License-Identifier: Apache-2.0
 *
 * Source lines by libdw in a child process.
 * Lives here: finding an address's compilation unit and line, sending it home.
 * Must not live here: anything that runs in the parent and believes the file.
 */
#include "analyzer/symbols/lines.h"

#include <dwarf.h>
#include <elfutils/libdw.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "analyzer/base/grow.h"
#include "analyzer/base/regular_file.h"

enum { CHILD_SECONDS = 30, FILE_NAME_MAX = 4096 };

/* What the child sends for an address it knows; the file's name follows. */
struct line_answer {
    uint32_t index, line, length;
};

/* ---- in the child ---------------------------------------------------------------------------- */

struct range {
    uint64_t start, end;
    Dwarf_Off unit;
};

struct ranges {
    struct range *items;
    size_t count;
};

static int compare_ranges(const void *a, const void *b) {
    const struct range *left = a, *right = b;
    return left->start < right->start ? -1 : left->start > right->start;
}

static bool add_range(struct ranges *ranges, uint64_t start, uint64_t end, Dwarf_Off unit) {
    if (start >= end)
        return true;
    if (!grow_list(ranges->items, ranges->count))
        return false;
    ranges->items[ranges->count++] = (struct range){start, end, unit};
    return true;
}

/* Not .debug_aranges: some compilers do not write it. */
static bool list_units(Dwarf *dwarf, struct ranges *ranges) {
    Dwarf_CU *unit = NULL;
    Dwarf_Die die, skeleton;
    uint8_t type;
    while (dwarf_get_units(dwarf, unit, &unit, NULL, &type, &die, &skeleton) == 0) {
        Dwarf_Die *whole = type == DW_UT_skeleton ? &skeleton : &die;
        Dwarf_Addr base, start, end;
        if (type != DW_UT_compile && type != DW_UT_skeleton)
            continue;
        for (ptrdiff_t at = 0; (at = dwarf_ranges(&die, at, &base, &start, &end)) > 0;)
            if (!add_range(ranges, start, end, dwarf_dieoffset(whole)))
                return false;
    }
    if (ranges->count > 0)
        qsort(ranges->items, ranges->count, sizeof *ranges->items, compare_ranges);
    return true;
}

static const struct range *find_range(const struct ranges *ranges, uint64_t address) {
    size_t low = 0, high = ranges->count;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (ranges->items[middle].start <= address)
            low = middle + 1;
        else
            high = middle;
    }
    return low > 0 && address < ranges->items[low - 1].end ? &ranges->items[low - 1] : NULL;
}

static bool send_all(int to, const void *data, size_t bytes) {
    for (size_t done = 0; done < bytes;) {
        ssize_t sent = write(to, (const char *)data + done, bytes - done);
        if (sent <= 0)
            return false;
        done += (size_t)sent;
    }
    return true;
}

static bool send_line(int to, Dwarf *dwarf, const struct range *range, uint64_t address, size_t index) {
    Dwarf_Die unit;
    int number = 0;
    Dwarf_Line *line = dwarf_offdie(dwarf, range->unit, &unit) ? dwarf_getsrc_die(&unit, address) : NULL;
    const char *file = line ? dwarf_linesrc(line, NULL, NULL) : NULL;
    if (!file || dwarf_lineno(line, &number) != 0 || number <= 0)
        return true;
    struct line_answer answer = {(uint32_t)index, (uint32_t)number, (uint32_t)strnlen(file, FILE_NAME_MAX)};
    return send_all(to, &answer, sizeof answer) && send_all(to, file, answer.length);
}

static void be_the_child(const char *path, const uint64_t *addresses, size_t count, int to) {
    setrlimit(RLIMIT_CPU, &(struct rlimit){CHILD_SECONDS, CHILD_SECONDS});
    setrlimit(RLIMIT_CORE, &(struct rlimit){0, 0});
    struct ranges ranges = {0};
    int fd = regular_file_open(AT_FDCWD, path, 0);
    Dwarf *dwarf = fd >= 0 ? dwarf_begin(fd, DWARF_C_READ) : NULL;
    bool done = dwarf && list_units(dwarf, &ranges);
    for (size_t i = 0; done && i < count; i++) {
        const struct range *range = find_range(&ranges, addresses[i]);
        done = !range || send_line(to, dwarf, range, addresses[i], i);
    }
    _exit(0);
}

/* ---- in the parent --------------------------------------------------------------------------- */

static bool receive_all(int from, void *data, size_t bytes) {
    for (size_t done = 0; done < bytes;) {
        ssize_t got = read(from, (char *)data + done, bytes - done);
        if (got < 0 && errno == EINTR)
            continue;
        if (got <= 0)
            return false;
        done += (size_t)got;
    }
    return true;
}

/* Takes answers until the child ends or talks nonsense. Returns false when memory is short. */
static bool take_answers(int from, struct source_line *lines, size_t count) {
    struct line_answer answer;
    while (receive_all(from, &answer, sizeof answer)) {
        char file[FILE_NAME_MAX + 1];
        if (answer.index >= count || answer.length > FILE_NAME_MAX || lines[answer.index].file ||
            !receive_all(from, file, answer.length))
            break;
        file[answer.length] = '\0';
        lines[answer.index] = (struct source_line){strdup(file), answer.line};
        if (!lines[answer.index].file)
            return false;
    }
    return true;
}

enum lines_result lines_find(const char *path, const uint64_t *addresses, size_t count, struct source_line *lines) {
    int ends[2], status;
    if (count == 0)
        return LINES_DONE;
    if (pipe2(ends, O_CLOEXEC) != 0)
        return LINES_NO_MEMORY;
    pid_t child = fork();
    if (child == 0)
        be_the_child(path, addresses, count, ends[1]);
    close(ends[1]);
    bool enough_memory = child > 0 && take_answers(ends[0], lines, count);
    close(ends[0]);
    if (child > 0)
        while (waitpid(child, &status, 0) < 0 && errno == EINTR)
            ;
    if (!enough_memory)
        return LINES_NO_MEMORY;
    return WIFEXITED(status) && WEXITSTATUS(status) == 0 ? LINES_DONE : LINES_DAMAGED;
}
