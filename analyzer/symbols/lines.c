/* SPDX-License-Identifier: Apache-2.0
 *
 * Source lines and inlined calls by libdw in a child process.
 * Lives here: finding an address's compilation unit, line and inlined calls, sending them home.
 * Must not live here: anything that runs in the parent and believes the file.
 */
#include "analyzer/symbols/lines.h"

#include <dwarf.h>
#include <elfutils/libdw.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "analyzer/base/grow.h"
#include "analyzer/base/regular_file.h"

enum { CHILD_SECONDS = 30, NAME_BYTES_MAX = 4096 };

/* What the child sends for an address it knows: first its line, then, in a later answer each, the calls inlined there.
 * The names follow: of the file, and of the function that was inlined. */
struct line_answer {
    uint32_t index, line, file_bytes, function_bytes; /* function_bytes 0: the address's own line */
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

static bool send_answer(int to, size_t index, uint32_t line, const char *file, const char *function) {
    struct line_answer answer = {(uint32_t)index, line, (uint32_t)strnlen(file, NAME_BYTES_MAX),
                                 (uint32_t)strnlen(function, NAME_BYTES_MAX)};
    return send_all(to, &answer, sizeof answer) && send_all(to, file, answer.file_bytes) &&
           send_all(to, function, answer.function_bytes);
}

static bool send_line(int to, Dwarf *dwarf, const struct range *range, uint64_t address, size_t index) {
    Dwarf_Die unit;
    int number = 0;
    Dwarf_Line *line = dwarf_offdie(dwarf, range->unit, &unit) ? dwarf_getsrc_die(&unit, address) : NULL;
    const char *file = line ? dwarf_linesrc(line, NULL, NULL) : NULL;
    if (!file || dwarf_lineno(line, &number) != 0 || number <= 0)
        return true;
    return send_answer(to, index, (uint32_t)number, file, "");
}

/* What stands before "::name". */
static bool is_named_scope(Dwarf_Die *die) {
    int tag = dwarf_tag(die);
    return (tag == DW_TAG_namespace || tag == DW_TAG_class_type || tag == DW_TAG_structure_type ||
            tag == DW_TAG_union_type) &&
           dwarf_diename(die);
}

/* A function's own name below those of its namespaces and classes. */
static void qualified_name(Dwarf_Die *inlined, char *text, size_t size) {
    Dwarf_Attribute attribute;
    Dwarf_Die function = *inlined, next, *scopes = NULL;
    for (int hops = 0; hops < 4; hops++) { /* from the inlined instance to where it was declared */
        if (!dwarf_attr(&function, DW_AT_abstract_origin, &attribute) &&
            !dwarf_attr(&function, DW_AT_specification, &attribute))
            break;
        if (!dwarf_formref_die(&attribute, &next))
            break;
        function = next;
    }
    int count = dwarf_getscopes_die(&function, &scopes);
    size_t used = 0;
    for (int i = count - 1; i > 0; i--)
        if (is_named_scope(&scopes[i]) && used < size)
            used += (size_t)snprintf(text + used, size - used, "%s::", dwarf_diename(&scopes[i]));
    free(scopes);
    const char *name = dwarf_diename(inlined);
    if (used < size)
        snprintf(text + used, size - used, "%s", name ? name : "");
}

/* As a symbol table would have it where the debug data say so: functions that are nobody else's have no such name. */
static void function_name(Dwarf_Die *inlined, char *text, size_t size) {
    Dwarf_Attribute attribute;
    const char *name = NULL;
    if (dwarf_attr_integrate(inlined, DW_AT_linkage_name, &attribute) ||
        dwarf_attr_integrate(inlined, DW_AT_MIPS_linkage_name, &attribute))
        name = dwarf_formstring(&attribute);
    if (name)
        snprintf(text, size, "%s", name);
    else
        qualified_name(inlined, text, size);
}

static const char *caller_file(Dwarf_Die *unit, Dwarf_Die *inlined) {
    Dwarf_Attribute attribute;
    Dwarf_Files *files;
    Dwarf_Word number;
    size_t count;
    if (!dwarf_attr(inlined, DW_AT_call_file, &attribute) || dwarf_formudata(&attribute, &number) != 0 ||
        dwarf_getsrcfiles(unit, &files, &count) != 0 || number >= count)
        return NULL;
    return dwarf_filesrc(files, number, NULL, NULL);
}

static uint32_t caller_line(Dwarf_Die *inlined) {
    Dwarf_Attribute attribute;
    Dwarf_Word line;
    return dwarf_attr(inlined, DW_AT_call_line, &attribute) && dwarf_formudata(&attribute, &line) == 0 &&
                   line < UINT32_MAX
               ? (uint32_t)line
               : 0;
}

/* The unit whose entries describe functions: of split debug data, the one in the other file. */
static bool open_unit(Dwarf *dwarf, const struct range *range, Dwarf_Die *unit) {
    Dwarf_Die split;
    uint8_t type;
    if (!dwarf_offdie(dwarf, range->unit, unit))
        return false;
    if (dwarf_cu_info(unit->cu, NULL, &type, NULL, &split, NULL, NULL, NULL) == 0 && type == DW_UT_skeleton &&
        dwarf_tag(&split) == DW_TAG_compile_unit)
        *unit = split;
    return true;
}

/* What an address lies in, innermost first, as the code is nested in the program: dwarf_getscopes() itself goes on from
 * an inlined function to where that was written. Returns how many. */
static int list_scopes(Dwarf_Die *unit, uint64_t address, Dwarf_Die **scopes) {
    Dwarf_Die *found = NULL;
    if (dwarf_getscopes(unit, address, &found) <= 0)
        return 0;
    Dwarf_Die innermost = found[0];
    free(found);
    return dwarf_getscopes_die(&innermost, scopes);
}

/* The innermost first, up to the function that is there as such. */
static bool send_inlined_calls(int to, Dwarf *dwarf, const struct range *range, uint64_t address, size_t index) {
    Dwarf_Die unit, *scopes = NULL;
    char function[NAME_BYTES_MAX];
    int count = open_unit(dwarf, range, &unit) ? list_scopes(&unit, address, &scopes) : 0;
    bool sent = true;
    for (int i = 0, calls = 0; sent && i < count && calls < INLINED_MOST; i++) {
        if (dwarf_tag(&scopes[i]) == DW_TAG_subprogram)
            break;
        if (dwarf_tag(&scopes[i]) != DW_TAG_inlined_subroutine)
            continue;
        function_name(&scopes[i], function, sizeof function);
        if (!*function)
            continue;
        const char *file = caller_file(&unit, &scopes[i]);
        sent = send_answer(to, index, file ? caller_line(&scopes[i]) : 0, file ? file : "", function);
        calls++;
    }
    free(scopes);
    return sent;
}

static void be_the_child(const char *path, const uint64_t *addresses, size_t count, int to) {
    setrlimit(RLIMIT_CPU, &(struct rlimit){CHILD_SECONDS, CHILD_SECONDS});
    setrlimit(RLIMIT_CORE, &(struct rlimit){0, 0});
    struct ranges ranges = {0};
    int fd = regular_file_open(AT_FDCWD, path, 0);
    Dwarf *dwarf = fd >= 0 ? dwarf_begin(fd, DWARF_C_READ) : NULL;
    bool done = dwarf && list_units(dwarf, &ranges);
    /* all lines before the first search for inlined calls, which takes longer: when time is up, lines are there */
    for (size_t i = 0; done && i < count; i++) {
        const struct range *range = find_range(&ranges, addresses[i]);
        done = !range || send_line(to, dwarf, range, addresses[i], i);
    }
    for (size_t i = 0; done && i < count; i++) {
        const struct range *range = find_range(&ranges, addresses[i]);
        done = !range || send_inlined_calls(to, dwarf, range, addresses[i], i);
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

/* Where a name is empty *into stays NULL. Returns false when the child talks nonsense or memory is short. */
static bool receive_name(int from, uint32_t bytes, char **into) {
    if (bytes == 0)
        return true;
    *into = bytes <= NAME_BYTES_MAX ? calloc(1, bytes + 1) : NULL;
    return *into && receive_all(from, *into, bytes);
}

static bool add_call(struct source_line *line, struct inlined_call call) {
    struct inlined_call *calls =
        line->call_count < INLINED_MOST ? realloc(line->calls, (line->call_count + 1) * sizeof *line->calls) : NULL;
    if (!calls)
        return false;
    line->calls = calls;
    calls[line->call_count++] = call;
    return true;
}

/* Takes answers until the child ends or talks nonsense, which ends it. */
static void take_answers(int from, struct source_line *lines, size_t count) {
    struct line_answer answer;
    while (receive_all(from, &answer, sizeof answer)) {
        char *file = NULL, *function = NULL;
        bool taken = answer.index < count && receive_name(from, answer.file_bytes, &file) &&
                     receive_name(from, answer.function_bytes, &function);
        struct source_line *line = taken ? &lines[answer.index] : NULL;
        if (taken && function) {
            taken = add_call(line, (struct inlined_call){function, file, answer.line});
        } else if (taken && file && !line->file) {
            line->file = file;
            line->line = answer.line;
        } else {
            taken = false;
        }
        if (!taken) {
            free(file);
            free(function);
            return;
        }
    }
}

void source_line_free(struct source_line *line) {
    for (size_t i = 0; i < line->call_count; i++) {
        free(line->calls[i].function);
        free(line->calls[i].file);
    }
    free(line->calls);
    free(line->file);
    *line = (struct source_line){0};
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
    if (child > 0)
        take_answers(ends[0], lines, count);
    close(ends[0]); /* a child that still writes ends by it */
    if (child < 0)
        return LINES_NO_MEMORY;
    while (waitpid(child, &status, 0) < 0 && errno == EINTR)
        ;
    return WIFEXITED(status) && WEXITSTATUS(status) == 0 ? LINES_DONE : LINES_DAMAGED;
}
