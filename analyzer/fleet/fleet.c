/* SPDX-License-Identifier: Apache-2.0 */
#include "analyzer/fleet/fleet.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "analyzer/archive/archive.h"
#include "analyzer/archive/archive_write.h"
#include "analyzer/base/grow.h"
#include "analyzer/base/side_by_side.h"
#include "analyzer/base/text.h"
#include "analyzer/dumps/lifetime.h"
#include "analyzer/dumps/peek.h"
#include "analyzer/fleet/below.h"
#include "analyzer/fleet/own_files.h"

enum { LEVELS = 6, HEX_DIGITS = 16 }; /* COMMTAP_DIR has five words, each may be a directory of its own */

/* ---- names ------------------------------------------------------------------------------------- */

/* Cuts `suffix` off the end of name[0..*length-1]. */
static bool cut_end(const char *name, size_t *length, const char *suffix) {
    size_t end = strlen(suffix);
    if (*length <= end || strncmp(name + *length - end, suffix, end) != 0)
        return false;
    *length -= end;
    return true;
}

/* Of one process, with its 16 digits; then what belongs to a run. */
static bool cut_suffix(const char *name, size_t *length) {
    static const char *const of_process[] = {FORMAT_UNFINISHED_SUFFIX, FORMAT_FILE_SUFFIX, FORMAT_STUB_SUFFIX,
                                             FORMAT_STAGED_SUFFIX};
    static const char *const of_run[] = {ARCHIVE_SUFFIX ARCHIVE_PART_SUFFIX, ARCHIVE_SUFFIX, FORMAT_DEATHS_SUFFIX,
                                         FORMAT_SYMBOLS_SUFFIX};
    for (size_t i = 0; i < sizeof of_run / sizeof *of_run; i++)
        if (cut_end(name, length, of_run[i]))
            return true;
    bool unfinished = cut_end(name, length, of_process[0]), found = false;
    for (size_t i = 1; i < sizeof of_process / sizeof *of_process && !found; i++)
        found = (!unfinished || i == 1) && cut_end(name, length, of_process[i]);
    if (!found || *length <= HEX_DIGITS + 1 || name[*length - HEX_DIGITS - 1] != '.')
        return false;
    for (size_t i = *length - HEX_DIGITS; i < *length; i++)
        if (!strchr("0123456789abcdef", name[i]))
            return false;
    *length -= HEX_DIGITS + 1;
    return true;
}

bool fleet_run_of(const char *name, char run_id[64]) {
    size_t length = strlen(name), prefix = strlen(FORMAT_FILE_PREFIX);
    if (strncmp(name, FORMAT_FILE_PREFIX, prefix) != 0 || !cut_suffix(name, &length) || length <= prefix ||
        length - prefix >= 64)
        return false;
    memcpy(run_id, name + prefix, length - prefix);
    run_id[length - prefix] = '\0';
    return true;
}

/* ---- one directory ----------------------------------------------------------------------------- */

/* A directory that is looked into, by one thread, and what was found in it. */
struct place {
    char *path; /* below the one that was named; owned */
    int descriptor;
    struct stat status;
    struct fleet found;
    char **below; /* paths of what is, or may be, a directory in it; owned, as they are */
    size_t below_count;
    bool no_memory;
};

static struct fleet_job *job_of(struct place *place, const char *run_id) {
    struct fleet *fleet = &place->found;
    for (size_t i = fleet->count; i-- > 0;) /* a directory often lists a run's files in a row */
        if (strcmp(fleet->jobs[i].run_id, run_id) == 0)
            return &fleet->jobs[i];
    if (!grow_by_one(fleet->jobs, fleet->count, fleet->room))
        return NULL;
    struct fleet_job *job = &fleet->jobs[fleet->count];
    *job = (struct fleet_job){.path = strdup(place->path),
                              .device = place->status.st_dev,
                              .inode = place->status.st_ino,
                              .owner = (uid_t)-1,
                              .started_ns = INT64_MAX,
                              .ended_ns = INT64_MIN,
                              .exited_ns = INT64_MIN};
    snprintf(job->run_id, sizeof job->run_id, "%s", run_id);
    fleet->count += job->path != NULL;
    return job->path ? job : NULL;
}

static void note_state(struct fleet_job *job, enum fleet_state state) {
    job->state = state > job->state ? state : job->state;
}

/* False: memory is short. */
static bool note_process(struct fleet_job *job, const struct dump_header *header) {
    uint64_t children = header->children, unrecorded = header->losses.children_unrecorded;
    if (!grow_list(job->processes, job->process_count))
        return false;
    job->processes[job->process_count++] =
        (struct fleet_process){.world_id = header->world_id,
                               .generation = header->generation,
                               .rank = header->rank,
                               .forked = children > unrecorded ? (int64_t)(children - unrecorded) : 0};
    return true;
}

static int64_t exit_of(const struct dump_header *header) {
    double ticks = (double)header->exited_ticks - (double)header->activated_ticks;
    double ns = header->tick_hz_hint > 0 ? ticks * 1e9 / (double)header->tick_hz_hint : -1;
    bool told =
        header->activated_ticks > 0 && ns >= 0 && ns < 1e18 && header->process_start_realtime_ns < INT64_MAX / 2;
    return told ? (int64_t)header->process_start_realtime_ns + (int64_t)ns : INT64_MIN;
}

static void take_header(struct fleet_job *job, const struct dump_header *header, enum process_state process) {
    int64_t exited_ns = exit_of(header);
    job->exited_ns = exited_ns > job->exited_ns ? exited_ns : job->exited_ns;
    if (header->process_start_realtime_ns > 0 && (int64_t)header->process_start_realtime_ns < job->started_ns) {
        job->started_ns = (int64_t)header->process_start_realtime_ns;
        snprintf(job->job_id, sizeof job->job_id, "%s", header->job_id);
        snprintf(job->user, sizeof job->user, "%s", header->user);
        snprintf(job->host, sizeof job->host, "%s", header->host);
        snprintf(job->command, sizeof job->command, "%.*s", (int)sizeof job->command - 1, header->command);
    }
    job->unfinished |= !dump_has_finished(header) || header->state & STATE_ABORTING;
    note_state(job, process == PROCESS_ELSEWHERE   ? FLEET_UNKNOWN
                    : process != PROCESS_GONE      ? FLEET_RUNS
                    : header->state & STATE_EXITED ? FLEET_ENDED
                                                   : FLEET_KILLED);
}

/* False: memory is short. */
static bool take_dump(struct fleet_job *job, const struct peek *peek) {
    take_header(job, &peek->header, peek_process(peek));
    job->dumps++;
    return note_process(job, &peek->header);
}

/* A process whose dump was packed has ended; of what lies there unpacked, too, that tells. */
static bool take_member(struct place *place, struct fleet_job *job, struct archive *archive, uint64_t number) {
    struct archive_entry entry;
    struct peek peek;
    if (!archive_entry_at(archive, number, &entry)) {
        job->untold = true;
        return true;
    }
    if (!text_ends_in(entry.name, FORMAT_FILE_SUFFIX) ||
        faccessat(place->descriptor, entry.name, F_OK, AT_SYMLINK_NOFOLLOW) == 0)
        return true;
    if (!peek_packed(archive, &entry, &peek)) {
        job->untold = true;
        return true;
    }
    take_header(job, &peek.header, PROCESS_GONE);
    return note_process(job, &peek.header);
}

static bool take_archive(struct place *place, struct fleet_job *job, const char *name) {
    struct archive archive;
    bool enough_memory = true;
    job->packed++;
    if (archive_open(&archive, place->descriptor, name, O_NOFOLLOW))
        for (uint64_t i = 0; enough_memory && i < archive.count; i++)
            enough_memory = take_member(place, job, &archive, i);
    else
        job->untold = true;
    archive_close(&archive);
    return enough_memory;
}

/* What it says of its job: a dump by its header, also where it is staged on this host; a stub of another one or a dump
 * that is just being made, that a process may run. */
static bool take_file(struct place *place, struct fleet_job *job, const char *name) {
    struct peek peek;
    struct stat status;
    if (fstatat(place->descriptor, name, &status, AT_SYMLINK_NOFOLLOW) != 0 || !S_ISREG(status.st_mode))
        return true;
    if (text_ends_in(name, FORMAT_FILE_SUFFIX)) {
        if (peek_dump(place->descriptor, name, &peek) != NULL)
            return true; /* whatever it is, it is no dump of ours */
        if (!take_dump(job, &peek))
            return false;
    }
    if (!own_file_begins(place->descriptor, name))
        return true;
    if (text_ends_in(name, FORMAT_STUB_SUFFIX) && peek_staged(place->descriptor, name, &peek)) {
        if (!take_dump(job, &peek))
            return false;
    } else if (text_ends_in(name, FORMAT_STUB_SUFFIX) || text_ends_in(name, FORMAT_UNFINISHED_SUFFIX) ||
               text_ends_in(name, ARCHIVE_PART_SUFFIX)) {
        note_state(job, FLEET_UNKNOWN);
    }
    if (archive_is_one(name) && !take_archive(place, job, name))
        return false;
    if (!grow_list(job->files, job->file_count))
        return false;
    job->files[job->file_count] = (struct fleet_file){strdup(name), (uint64_t)status.st_blocks * 512};
    if (!job->files[job->file_count].name)
        return false;
    job->bytes += job->files[job->file_count++].bytes;
    job->other_owners |= job->owner != (uid_t)-1 && job->owner != status.st_uid;
    job->owner = status.st_uid;
    int64_t changed = (int64_t)status.st_mtim.tv_sec * 1000000000 + status.st_mtim.tv_nsec;
    job->ended_ns = changed > job->ended_ns ? changed : job->ended_ns;
    return true;
}

static bool note_below(struct place *place, const char *name) {
    char *path;
    if (!grow_list(place->below, place->below_count) ||
        asprintf(&path, "%s%s%s", place->path, *place->path ? "/" : "", name) < 0)
        return false;
    place->below[place->below_count++] = path;
    return true;
}

/* False: memory is short. */
static bool take_entry(struct place *place, const struct dirent *entry) {
    char run_id[64];
    if (entry->d_name[0] == '.' && strspn(entry->d_name, ".") == strlen(entry->d_name))
        return true;
    if (entry->d_type != DT_DIR && fleet_run_of(entry->d_name, run_id)) {
        struct fleet_job *job = job_of(place, run_id);
        return job && take_file(place, job, entry->d_name);
    }
    return (entry->d_type != DT_DIR && entry->d_type != DT_UNKNOWN) || note_below(place, entry->d_name);
}

/* Jobs of which no file turned out to be ours are none. */
static void drop_empty(struct fleet *fleet) {
    size_t kept = 0;
    for (size_t i = 0; i < fleet->count; i++)
        if (fleet->jobs[i].file_count > 0)
            fleet->jobs[kept++] = fleet->jobs[i];
        else
            free(fleet->jobs[i].path);
    fleet->count = kept;
}

/* What was taken for a directory need be none, or is gone: no more is said of those. */
static void look_into(struct place *place, int named) {
    place->descriptor = below_open(named, place->path);
    DIR *stream = place->descriptor < 0 ? NULL : fdopendir(place->descriptor);
    bool done = stream && fstat(place->descriptor, &place->status) == 0;
    if (!done)
        place->found.unreadable = errno != ENOTDIR && errno != ELOOP && errno != ENOENT;
    for (struct dirent *entry; done && (entry = readdir(stream));)
        if (!take_entry(place, entry)) {
            place->no_memory = true;
            break;
        }
    drop_empty(&place->found);
    if (stream)
        closedir(stream);
    else if (place->descriptor >= 0)
        close(place->descriptor);
}

/* ---- launches ---------------------------------------------------------------------------------- */

static int compare_processes(const void *a, const void *b) {
    const struct fleet_process *left = a, *right = b;
    if (left->world_id != right->world_id)
        return left->world_id < right->world_id ? -1 : 1;
    if (left->generation != right->generation)
        return left->generation < right->generation ? -1 : 1;
    return (left->rank > right->rank) - (left->rank < right->rank);
}

static bool is_one_world(const struct fleet_process *a, const struct fleet_process *b) {
    return a->world_id == b->world_id && a->generation == b->generation;
}

/* Of programs that have the same names each launch has left a dump of a rank, and those that were forked from it. Of
 * ranks that are not known it cannot be told. */
static int64_t launches_of_rank(const struct fleet_process *processes, size_t count) {
    int64_t launches = (int64_t)count;
    for (size_t i = 0; i < count; i++)
        launches -= processes[i].forked < (int64_t)count ? processes[i].forked : (int64_t)count;
    return launches > 1 && processes[0].rank != RANK_UNKNOWN ? launches : 1;
}

static void count_launches(struct fleet_job *job) {
    struct fleet_process *all = job->processes;
    int64_t most = 0;
    if (job->process_count > 0)
        qsort(all, job->process_count, sizeof *all, compare_processes);
    for (size_t first = 0, end; first < job->process_count; first = end) {
        for (end = first + 1; end < job->process_count && compare_processes(&all[first], &all[end]) == 0;)
            end++;
        int64_t launches = launches_of_rank(all + first, end - first);
        most = launches > most ? launches : most;
        if (end == job->process_count || !is_one_world(&all[first], &all[end])) {
            job->launches += (size_t)most;
            most = 0;
        }
    }
    free(job->processes);
    job->processes = NULL;
    job->process_count = 0;
}

/* ---- all of them ------------------------------------------------------------------------------- */

static int compare_files(const void *a, const void *b) {
    return strcmp(((const struct fleet_file *)a)->name, ((const struct fleet_file *)b)->name);
}

static int compare_jobs(const void *a, const void *b) {
    const struct fleet_job *left = a, *right = b;
    if (left->started_ns != right->started_ns)
        return left->started_ns < right->started_ns ? -1 : 1;
    int order = strcmp(left->path, right->path);
    return order ? order : strcmp(left->run_id, right->run_id);
}

void fleet_free(struct fleet *fleet) {
    for (size_t i = 0; i < fleet->count; i++) {
        for (size_t f = 0; f < fleet->jobs[i].file_count; f++)
            free(fleet->jobs[i].files[f].name);
        free(fleet->jobs[i].files);
        free(fleet->jobs[i].processes);
        free(fleet->jobs[i].path);
    }
    free(fleet->jobs);
    *fleet = (struct fleet){.jobs = NULL};
}

/* The directories of one depth. */
struct level {
    int named;
    struct place *places;
    size_t count, room;
};

static void look_into_one(void *context, size_t number) {
    struct level *level = context;
    look_into(&level->places[number], level->named);
}

static void free_level(struct level *level) {
    for (size_t i = 0; i < level->count; i++) {
        struct place *place = &level->places[i];
        fleet_free(&place->found);
        for (size_t b = 0; b < place->below_count; b++)
            free(place->below[b]);
        free(place->below);
        free(place->path);
    }
    free(level->places);
    level->places = NULL;
    level->count = level->room = 0;
}

/* Hands what was found over to `fleet`, and the directories below to `next`. False: memory is short. */
static bool take_level(struct fleet *fleet, struct level *level, struct level *next) {
    for (size_t i = 0; i < level->count; i++) {
        struct place *place = &level->places[i];
        struct fleet *found = &place->found;
        if (place->no_memory || !grow_to(fleet->jobs, fleet->room, fleet->count + found->count) ||
            !grow_to(next->places, next->room, next->count + place->below_count))
            return false;
        fleet->unreadable += found->unreadable;
        for (size_t j = 0; j < found->count; j++)
            fleet->jobs[fleet->count++] = found->jobs[j];
        found->count = 0;
        for (size_t b = 0; b < place->below_count; b++)
            next->places[next->count++] = (struct place){.path = place->below[b]};
        place->below_count = 0;
    }
    return true;
}

static bool find_jobs(struct fleet *fleet, int descriptor) {
    struct level level = {.named = descriptor}, next = {.named = descriptor};
    char *named = strdup("");
    bool done = named && grow_by_one(level.places, level.count, level.room);
    if (done)
        level.places[level.count++] = (struct place){.path = named};
    else
        free(named);
    for (int depth = 0; done && depth <= LEVELS && level.count > 0; depth++) {
        side_by_side(FLEET_THREADS, level.count, look_into_one, &level);
        done = take_level(fleet, &level, &next);
        free_level(&level);
        level = next;
        next = (struct level){.named = descriptor};
    }
    free_level(&level);
    free_level(&next);
    return done;
}

bool fleet_find(struct fleet *fleet, int descriptor) {
    *fleet = (struct fleet){.jobs = NULL};
    if (!find_jobs(fleet, descriptor)) {
        errno = ENOMEM;
        return false;
    }
    for (size_t i = 0; i < fleet->count; i++) {
        qsort(fleet->jobs[i].files, fleet->jobs[i].file_count, sizeof *fleet->jobs[i].files, compare_files);
        count_launches(&fleet->jobs[i]);
    }
    if (fleet->count > 0)
        qsort(fleet->jobs, fleet->count, sizeof *fleet->jobs, compare_jobs);
    return true;
}
