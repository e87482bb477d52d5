/* SPDX-License-Identifier: Apache-2.0 */
#include "analyzer/cli/processes.h"

#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "analyzer/base/hash.h"
#include "analyzer/cli/command.h"
#include "analyzer/dumps/process.h"
#include "analyzer/render/escape.h"

enum {
    WORDS_MOST = 1 << 16, /* bytes of what one process said that travel: the last ones */
    TELLERS_MOST = 4,     /* processes beside the first one whose words are shown */
};

/* ---- standard streams -------------------------------------------------------------------------------------------- */

static void put_in_place(int file, int stream) {
    if (file < 0)
        return;
    dup2(file, stream);
    close(file);
}

void processes_begin(struct processes *processes, struct team *team) {
    *processes = (struct processes){team, -1, -1};
    if (!team_is_shared(team))
        return;
    if (team->number > 0)
        put_in_place(open("/dev/null", O_WRONLY | O_CLOEXEC), STDOUT_FILENO);
    int words = memfd_create("words", MFD_CLOEXEC), errors = fcntl(STDERR_FILENO, F_DUPFD_CLOEXEC, 3);
    if (words < 0 || errors < 0 || dup2(words, STDERR_FILENO) < 0) {
        put_in_place(words, STDERR_FILENO);
        return;
    }
    processes->words = words;
    processes->errors = errors;
}

/* ---- the end ----------------------------------------------------------------------------------------------------- */

/* What a process brings to the end. */
struct end_note {
    struct team_head head;
    int32_t code;
    uint32_t bystander;
    char host[64];
    uint32_t length;
    char words[WORDS_MOST];
};

static void read_words(struct end_note *note, struct processes *processes) {
    if (processes->words < 0)
        return;
    off_t length = lseek(processes->words, 0, SEEK_END), from = length > WORDS_MOST ? length - WORDS_MOST : 0;
    ssize_t got = pread(processes->words, note->words, WORDS_MOST, from);
    note->length = got > 0 ? (uint32_t)got : 0;
    put_in_place(processes->errors, STDERR_FILENO);
    close(processes->words);
}

static const struct end_note *note_of(const struct team_block *block) {
    return (const void *)block->bytes;
}

static bool is_note(const struct team_block *block) {
    return block->count == sizeof(struct end_note) && note_of(block)->head.purpose == TEAM_END &&
           note_of(block)->length <= WORDS_MOST;
}

/* The worst of those who ended by themselves. */
static int agreed_code(const struct team *team, const struct team_block *all) {
    int worst = EXIT_FINE, worst_of_all = EXIT_FINE;
    for (unsigned p = 0; p < team->processes; p++) {
        int code = note_of(&all[p])->code;
        worst_of_all = code > worst_of_all ? code : worst_of_all;
        if (!note_of(&all[p])->bystander && code > worst)
            worst = code;
    }
    return worst != EXIT_FINE || !note_of(&all[0])->bystander ? worst : worst_of_all;
}

static bool says_the_same(const struct end_note *a, const struct end_note *b) {
    return a->length == b->length && memcmp(a->words, b->words, a->length) == 0;
}

/* What the first process said, and where the command failed what others said that is different. */
static void say_words(const struct team *team, const struct team_block *all, int code) {
    const struct end_note *first = note_of(&all[0]);
    unsigned tellers = 0;
    if (!first->bystander)
        fwrite(first->words, 1, first->length, stderr);
    for (unsigned p = 1; p < team->processes && tellers < TELLERS_MOST; p++) {
        const struct end_note *note = note_of(&all[p]);
        bool another = first->bystander || note->code != first->code || !says_the_same(note, first);
        if (note->bystander || code < EXIT_USAGE || !another)
            continue;
        tellers++;
        fprintf(stderr, "commtap: process %u on ", p);
        escape_text(stderr, note->host);
        fprintf(stderr, " ended with %d%s\n", note->code, note->length ? ":" : "");
        fwrite(note->words, 1, note->length, stderr);
    }
    if (first->bystander && tellers == 0 && code != EXIT_FINE)
        fputs("commtap: the processes did not come to the same: do all run one command with one list of arguments?\n",
              stderr);
}

/* Whoever is not yet at the end learns here that it has come. */
static int meet_at_end(struct team *team, struct end_note *note, struct team_block *all) {
    for (bool together = false; !together;) {
        if (!team_meet(team, TEAM_END, false, &(struct team_block){(char *)note, sizeof *note}, all)) {
            team_free(team, all);
            return note->code != EXIT_FINE ? note->code : EXIT_OUTPUT;
        }
        together = true;
        for (unsigned p = 0; p < team->processes; p++)
            together = together && is_note(&all[p]);
        if (!together)
            team_free(team, all);
    }
    int code = agreed_code(team, all);
    if (team->number == 0)
        say_words(team, all, code);
    team_free(team, all);
    return code;
}

int processes_end(struct processes *processes, int code) {
    struct team *team = processes->team;
    if (!team_is_shared(team))
        return code;
    struct end_note note = {.code = code, .bystander = team->bystander};
    gethostname(note.host, sizeof note.host - 1);
    read_words(&note, processes);
    return meet_at_end(team, &note, team->incoming);
}

/* ---- dumps ------------------------------------------------------------------------------------------------------- */

/* What a process sees of the input; behind it enum process_state of each usable dump, a byte. */
struct input_note {
    struct team_head head;
    uint64_t fingerprint;
    uint64_t usable, unusable, stubs, bytes;
    uint32_t living;
    char host[64];
};

/* Paths, sizes and how far each lane has come. */
static uint64_t fingerprint_of(const struct dump *dump) {
    uint64_t fingerprint = hash_mix(hash_mix_text(1, dump->path), dump->bytes);
    for (uint32_t l = 0; l < dump->lane_count; l++)
        fingerprint = hash_mix(hash_mix(fingerprint, dump->lanes[l].first_ticket), dump->lanes[l].end_ticket);
    return fingerprint;
}

static void look_at(const struct dump_set *set, const enum process_state *states, struct input_note *note) {
    uint8_t *told = (uint8_t *)(note + 1);
    *note = (struct input_note){
        .usable = set->count, .unusable = set->unusable_count, .stubs = set->stub_count, .fingerprint = 1};
    for (size_t d = 0; d < set->count; d++) {
        bool lives = states[d] == PROCESS_RUNS || states[d] == PROCESS_STOPPED;
        note->fingerprint = hash_mix(note->fingerprint, fingerprint_of(set->dumps[d]));
        note->bytes += set->dumps[d]->bytes;
        note->living += !(set->dumps[d]->header->state & STATE_EXITED) && lives;
        told[d] = (uint8_t)states[d];
    }
    for (size_t i = 0; i < set->stub_count; i++)
        note->fingerprint = hash_mix_text(note->fingerprint, set->stubs[i].path);
    gethostname(note->host, sizeof note->host - 1);
}

/* False: memory is short. */
static bool make_note(const struct dump_set *set, struct team_block *block) {
    *block = (struct team_block){.count = sizeof(struct input_note) + set->count};
    enum process_state *states = calloc(set->count + 1, sizeof *states);
    block->bytes = states ? calloc(1, block->count) : NULL;
    if (block->bytes) {
        process_states(set->dumps, set->count, states);
        look_at(set, states, (void *)block->bytes);
    }
    free(states);
    return block->bytes != NULL;
}

static void say_input(unsigned process, const struct input_note *note) {
    fprintf(stderr, "commtap: process %u on ", process);
    escape_text(stderr, note->host);
    fprintf(stderr,
            " sees %" PRIu64 " dumps of %" PRIu64 " bytes, %" PRIu64 " that cannot be used and %" PRIu64
            " that were not collected\n",
            note->usable, note->bytes, note->unusable, note->stubs);
}

static int judge_input(const struct team *team, const struct team_block *all) {
    const struct input_note *first = (const void *)all[0].bytes, *other;
    for (unsigned p = 0; p < team->processes; p++) {
        other = (const void *)all[p].bytes;
        if (other->living > 0) {
            fputs("commtap: the job runs still: processes that read its dumps would see different ones; commtap alone "
                  "follows it\n",
                  stderr);
            return EXIT_UNUSABLE;
        }
    }
    for (unsigned p = 1; p < team->processes; p++) {
        other = (const void *)all[p].bytes;
        if (other->fingerprint == first->fingerprint && other->unusable == first->unusable &&
            other->usable == first->usable && other->stubs == first->stubs)
            continue;
        fputs("commtap: the processes see different dumps: the directory must lie on a file system that all share\n",
              stderr);
        say_input(0, first);
        say_input(p, other);
        return EXIT_UNUSABLE;
    }
    return EXIT_FINE;
}

/* Each asks its own kernel. Whose process has ended on another host they then all know: else what they come to would
 * differ. */
static void share_ends(const struct team *team, const struct team_block *all, struct dump_set *set) {
    for (unsigned p = 0; p < team->processes; p++) {
        const uint8_t *told = (const uint8_t *)all[p].bytes + sizeof(struct input_note);
        for (size_t d = 0; d < set->count; d++)
            set->dumps[d]->is_gone |= told[d] == PROCESS_GONE;
    }
}

int processes_compare_input(struct team *team, struct dump_set *set) {
    if (!team_is_shared(team))
        return EXIT_FINE;
    struct team_block *all = team->incoming, mine;
    struct team_head nothing;
    bool failed = !make_note(set, &mine);
    int code = failed ? EXIT_OUTPUT : EXIT_UNUSABLE;
    if (failed)
        fputs("commtap: out of memory\n", stderr);
    if (team_meet(team, TEAM_INPUT, failed, failed ? &(struct team_block){(char *)&nothing, sizeof nothing} : &mine,
                  all)) {
        code = judge_input(team, all);
        if (code == EXIT_FINE)
            share_ends(team, all, set);
    }
    team_free(team, all);
    free(mine.bytes);
    return code;
}
