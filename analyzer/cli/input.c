/* SPDX-License-Identifier: Apache-2.0
 *
 * Opening a directory of dumps for a command.
 * Lives here: messages about the input.
 * Must not live here: anything about what the dumps hold.
 */
#include "analyzer/cli/input.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "analyzer/archive/codec.h"
#include "analyzer/base/regular_file.h"
#include "analyzer/cli/command.h"
#include "analyzer/cli/processes.h"
#include "analyzer/render/escape.h"
#include "analyzer/render/units.h"

enum { LINES_MAX = 8 }; /* of one kind of message: `commtap check` lists them all */

static void say_problem(const struct dump *dump, const struct problem *problem, const char *more) {
    fputs("commtap: ", stderr);
    escape_text(stderr, dump->path);
    fprintf(stderr, ": offset %" PRIu64 ": %s%s\n", problem->offset, problem->text, more);
}

void input_say_places(FILE *stream, const struct dump_set *set) {
    for (size_t i = 0; i < set->places.count; i++) {
        fputs(i ? " " : "", stream);
        escape_shell(stream, set->places.items[i]);
    }
}

void input_say_next(FILE *stream, const char *command, const struct dump_set *set) {
    fprintf(stream, "next: commtap %s ", command);
    input_say_places(stream, set);
    fputc('\n', stream);
}

static void say_more(size_t count, const char *what, const struct dump_set *set) {
    if (count <= LINES_MAX)
        return;
    fprintf(stderr, "commtap: %zu more %s: commtap check ", count - LINES_MAX, what);
    input_say_places(stderr, set);
    fputc('\n', stderr);
}

static void say_problems(const struct dump_set *set) {
    size_t damaged = 0, duplicates = 0;
    for (size_t i = 0; i < set->unusable_count && i < LINES_MAX; i++)
        say_problem(set->unusable[i], &set->unusable[i]->problems.items[0], ": not used");
    say_more(set->unusable_count, "unusable files", set);
    for (size_t i = 0; i < set->count; i++) {
        const struct problems *problems = &set->dumps[i]->problems;
        if (problems->count > 0 && ++damaged <= LINES_MAX)
            say_problem(set->dumps[i], &problems->items[0], problems->count > 1 ? " (and more)" : "");
        duplicates += set->duplicate[i];
    }
    say_more(damaged, "dumps with problems", set);
    if (duplicates > 0)
        fprintf(stderr, "commtap: %zu dump%s the same run, world, generation and rank as another and %s left out\n",
                duplicates, duplicates > 1 ? "s have" : " has", duplicates > 1 ? "are" : "is");
}

void input_say_stub(FILE *stream, const char *before, const struct dump_stub *stub) {
    fprintf(stream, "%snot collected: ", before);
    if (stub->damage) {
        escape_text(stream, stub->path);
        fprintf(stream, ": damaged stub: %s\n", stub->damage);
        return;
    }
    escape_text(stream, stub->host);
    fputc(':', stream);
    escape_text(stream, stub->staged_path);
    fputc('\n', stream);
}

static void report_stubs(const struct dump_set *set) {
    for (size_t i = 0; i < set->stub_count && i < LINES_MAX; i++)
        input_say_stub(stderr, "commtap: ", &set->stubs[i]);
    say_more(set->stub_count, "dumps that were not collected", set);
}

int input_no_memory(void) {
    fputs("commtap: out of memory\n", stderr);
    return EXIT_OUTPUT;
}

static void say_places(char *const *directories, size_t count) {
    for (size_t i = 0; i < count; i++) {
        fputs(i ? " " : "commtap: ", stderr);
        escape_text(stderr, directories[i]);
    }
}

static int refuse_many(char *const *directories, size_t count, const struct dump_set_excess *excess) {
    say_places(directories, count);
    if (excess->dumps - excess->packed <= excess->mapped_most) {
        fprintf(stderr,
                ": to unpack %zu dumps into memory takes %.1f GB where %.1f GB are free\n"
                "commtap: commtap pack --unpack writes them to the disk, where they need no memory\n",
                excess->packed, (double)excess->bytes / 1e9, (double)excess->memory / 1e9);
        return EXIT_UNUSABLE;
    }
    fprintf(stderr,
            ": %zu dumps: a process can map %zu of them (half of vm.max_map_count), and to read the others into memory "
            "takes "
            "%.1f GB where %.1f GB are free\n"
            "commtap: sysctl -w vm.max_map_count=%zu, or move some of the dumps elsewhere\n",
            excess->dumps, excess->mapped_most, (double)excess->bytes / 1e9, (double)excess->memory / 1e9,
            2 * excess->dumps + 2);
    return EXIT_UNUSABLE;
}

static int refuse_staged(char *const *directories, size_t count, const struct staged_need *need) {
    char bytes[UNITS_TEXT], memory[UNITS_TEXT], disk[UNITS_TEXT] = "nothing";
    units_size(bytes, need->bytes + need->other_bytes);
    units_size(memory, need->memory);
    if (need->disk > 0)
        units_size(disk, need->disk);
    say_places(directories, count);
    fprintf(stderr, ": %zu dumps are staged on other hosts than ", need->dumps);
    escape_text(stderr, need->host);
    fprintf(stderr,
            ", where %u cop%s of them would take %s: of %s of free memory, and of %s that is free on a disk below "
            "TMPDIR, commtap takes half at most\n"
            "commtap: commtap collect brings them to the directory, where they need no memory\n",
            need->copies, need->copies == 1 ? "y" : "ies", bytes, memory, disk);
    return EXIT_UNUSABLE;
}

static int refuse_to_send(char *const *directories, size_t count) {
    say_places(directories, count);
    fprintf(stderr,
            ": dumps are staged on the hosts of several processes, and these send them packed: %s\n"
            "commtap: commtap collect brings them to the directory\n",
            codec_lacks());
    return EXIT_UNUSABLE;
}

/* What keeps dumps from being there, the likeliest first. */
static void say_what_to_check(const struct dump_set *set, bool several) {
    fprintf(stderr, ": hold%s no dumps (commtap.*.ct, packed: *.ctz), nor do%s directories below\n", several ? "" : "s",
            several ? "" : "es one of the");
    if (set->unfinished > 0)
        fprintf(stderr, "commtap: %zu processes began one there (commtap.*.ct.new) and ended before it could be read\n",
                set->unfinished);
    fputs("commtap: check that the ranks came to MPI_Init or their first NCCL communicator, that LD_PRELOAD and\n"
          "commtap: COMMTAP_DIR reached them (commtap run arranges it; mpirun -x, srun --export), that COMMTAP_ENABLE "
          "is\n"
          "commtap: not 0, and what rank 0 said on stderr: it names a directory that it cannot write to\n"
          "commtap: next: commtap doctor COMMAND..., with the job's command, looks at all of it\n",
          stderr);
}

int input_refuse(char *const *directories, size_t count, enum dump_set_result result, const struct dump_set *set) {
    int error = errno;
    if (result == DUMP_SET_NO_MEMORY)
        return input_no_memory();
    if (result == DUMP_SET_TOO_MANY)
        return refuse_many(directories, count, &set->excess);
    if (result == DUMP_SET_TOO_MUCH_STAGED)
        return refuse_staged(directories, count, &set->excess.staged);
    if (result == DUMP_SET_CANNOT_SEND)
        return refuse_to_send(directories, count);
    if (result == DUMP_SET_PARTED)
        return EXIT_UNUSABLE; /* who failed says why */
    say_places(set->refused ? (char *const *)&set->refused : directories, set->refused ? 1 : count);
    if (result == DUMP_SET_EMPTY)
        say_what_to_check(set, count > 1);
    else
        fprintf(stderr, ": %s\n",
                error == ENOTDIR ? "is not a directory: name the one that holds the dumps" : regular_file_error(error));
    return EXIT_UNUSABLE;
}

/* With what cannot be used said, whether the others see the same. */
static int compare(struct team *team, struct dump_set *set) {
    int code = processes_compare_input(team, set);
    if (code != EXIT_FINE)
        dump_set_close(set);
    return code;
}

static int open_with(struct team *team, bool for_first, char *const *directories, size_t count, struct dump_set *set) {
    enum dump_set_result result = dump_set_open_together(team, for_first, directories, count, set);
    if (result != DUMP_SET_OK)
        return input_refuse(directories, count, result, set);
    say_problems(set);
    report_stubs(set);
    if (set->count > 0)
        return for_first ? EXIT_FINE : compare(team, set);
    say_places(directories, count);
    fputs(set->unusable_count == 0 && set->stub_count > 0 ? ": no dump is here yet: collect them with commtap-collect\n"
                                                          : ": no usable dump\n",
          stderr);
    dump_set_close(set);
    return EXIT_UNUSABLE;
}

int input_open(struct team *team, char *const *directories, size_t count, struct dump_set *set) {
    return open_with(team, false, directories, count, set);
}

int input_open_arguments(const struct options *options, struct dump_set *set) {
    struct team *team = options->lenders ? options->lenders : options->team;
    return open_with(team, options->lenders != NULL, options->arguments, options->argument_count, set);
}

int input_lend(struct team *team, char *const *directories, size_t count) {
    struct dump_set set = {0};
    enum dump_set_result result = dump_set_lend(team, directories, count, &set);
    return result == DUMP_SET_OK ? EXIT_FINE : input_refuse(directories, count, result, &set);
}
