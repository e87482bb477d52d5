/* SPDX-License-Identifier: Apache-2.0
 *
 * dumps/: the dumps of directories, and what lies beside them.
 * Lives here: finding and opening them all, loose or packed, stubs, what `commtap run` noted of deaths, who of them
 * lives still, launches. Must not live here: reading one dump (load/), any figure.
 */
#ifndef COMMTAP_DUMPS_SET_H
#define COMMTAP_DUMPS_SET_H

#include "analyzer/dumps/directories.h"
#include "analyzer/dumps/staged.h"
#include "analyzer/load/dump.h"

/* What stands for a dump that was staged on a node, not collected, and cannot be opened there by any process. */
struct dump_stub {
    char *path; /* of the stub */
    char host[65], boot_id[41];
    char *staged_path;
    int32_t rank; /* RANK_UNKNOWN when the stub does not say */
    int64_t pid;
    const char *damage; /* why the stub cannot be believed ("is empty"), NULL = it can; the rest is then what it says */
};

/* How many dumps there are, and what that takes where it is too many to map, or where packed ones are unpacked. */
struct dump_set_excess {
    size_t dumps, mapped_most;
    size_t packed;          /* of them, packed */
    uint64_t packed_bytes;  /* these take in memory */
    uint64_t bytes, memory; /* to read those beyond into memory, and how much of that is free; 0: all are mapped */
    struct staged_need staged;
};

struct dump_set {
    char *directory;     /* as it was given; of several, one behind the other */
    struct names places; /* the directories that were named, as they were given */
    const char *refused; /* the one of them that cannot be read, the caller's; NULL: none */
    size_t unfinished;   /* files whose processes ended before their dump could be read, which are no dumps */
    struct dump **dumps; /* usable ones, sorted by (run, world, generation, launch, rank, path) */
    size_t count;
    struct dump **unusable; /* with a fatal problem */
    size_t unusable_count;
    struct dump_stub *stubs; /* without the dump they stand for */
    size_t stub_count;
    struct names by_stub; /* paths of dumps that lie where they are staged and are open all the same; sorted */
    bool *duplicate;      /* per dump: another dump with the same identity comes before it; used by no analysis */
    struct dump_set_excess excess;
};

enum dump_set_result {
    DUMP_SET_OK = 0,
    DUMP_SET_NO_DIRECTORY,
    DUMP_SET_EMPTY,
    DUMP_SET_NO_MEMORY,
    DUMP_SET_TOO_MANY, /* neither can they be mapped, nor do they fit into memory: `excess` has the figures */
    /* with several processes: */
    DUMP_SET_TOO_MUCH_STAGED, /* on other hosts, for the memory of one: excess.staged has the figures */
    DUMP_SET_CANNOT_SEND,     /* what is staged on other hosts, since this program packs nothing (codec.h) */
    DUMP_SET_PARTED,          /* another one failed */
};

/* Opens every *.ct in `directory` and in the archives (*.ctz) there, or where it has none in the directories below it,
 * and reads stubs. On DUMP_SET_OK at least one dump is usable, or unusable files or stubs exist that the caller must
 * report. Sound stubs (stub.h) whose staged file is on this very host (same boot id) and readable are opened in place.
 * The caller frees with dump_set_close. */
enum dump_set_result dump_set_open(const char *directory, struct dump_set *set);
/* The same of several directories. On any other result set->refused and set->unfinished are still told. */
enum dump_set_result dump_set_open_all(char *const *directories, size_t count, struct dump_set *set);
/* The same by all processes of a team, each with the same directories (NULL: nobody else): what one can open where it
 * is staged is open in all, as if it lay there for each. With `for_first` the first process alone calls this, and all
 * others dump_set_lend, which open nothing and leave an empty set: it has what they can open. */
enum dump_set_result dump_set_open_together(struct team *team, bool for_first, char *const *directories, size_t count,
                                            struct dump_set *set);
enum dump_set_result dump_set_lend(struct team *team, char *const *directories, size_t count, struct dump_set *set);
/* The same with a limit of its own to how many dumps are mapped: those beyond are read into memory. */
enum dump_set_result dump_set_open_within(const char *directory, struct dump_set *set, size_t mapped_most);
void dump_set_close(struct dump_set *set);

/* Whether it lies on its node still, where it was staged, and a stub in one of the directories stands for it: then
 * `commtap collect` brings it there. */
bool dump_set_is_staged(const struct dump_set *set, const struct dump *dump);

/* Path of commtap.<run id><suffix> in the dump's directory: what belongs to all dumps of the run. The caller frees.
 * NULL when memory is short, or where the run id is no part of a file's name. */
char *dump_set_beside(const struct dump *dump, const char *suffix);

#endif
