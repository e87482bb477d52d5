/* SPDX-License-Identifier: Apache-2.0
 *
 * Jobs below a directory: which ones are found, which ones go, and what of them.
 * Lives here: real files in a directory of their own. Must not live here: the commands' words.
 */
#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

#include "analyzer/dumps/process.h"
#include "analyzer/fleet/prune.h"
#include "analyzer/pack/pack.h"
#include "test/support/dump_builder.h"

enum { JOBS_MAX = 8 };
static const int64_t second = 1000000000, start = INT64_C(1700000000) * 1000000000;
static char directory[64];
static int descriptor;

static int make_directory(void **state) {
    (void)state;
    strcpy(directory, "/tmp/commtap-test-XXXXXX");
    if (!mkdtemp(directory))
        return -1;
    descriptor = open(directory, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    return descriptor < 0 ? -1 : 0;
}

static int remove_directory(void **state) {
    (void)state;
    char command[128];
    close(descriptor);
    snprintf(command, sizeof command, "rm -rf %s", directory);
    return system(command);
}

static bool is_there(const char *name) {
    struct stat status;
    return fstatat(descriptor, name, &status, AT_SYMLINK_NOFOLLOW) == 0;
}

static void make_text(const char *name, const char *text) {
    int file = openat(descriptor, name, O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
    const struct timespec time = {start / second + 1, 0};
    assert_int_equal(write(file, text, strlen(text)), strlen(text));
    assert_int_equal(futimens(file, (const struct timespec[]){time, time}), 0);
    close(file);
}

static void make_file(const char *name) {
    make_text(name, "something");
}

static void make_alive(struct dump_header *header) {
    struct process_look look;
    struct timespec real, boot;
    clock_gettime(CLOCK_REALTIME, &real);
    clock_gettime(CLOCK_BOOTTIME, &boot);
    assert_true(process_look(getpid(), &look));
    assert_true(process_boot_id(header->boot_id, sizeof header->boot_id));
    header->pid = getpid();
    header->process_start_realtime_ns = (uint64_t)((double)(real.tv_sec - boot.tv_sec) * 1e9 + look.started * 1e9);
}

/* A job of one dump that began `began` seconds after the start and was last changed `seconds` later. */
static void make_job(const char *name, const char *run, uint32_t state, int began, int seconds) {
    char path[256];
    struct dump_builder *builder = dump_builder_new(&(struct dump_plan){.rank = 0, .world_size = 1});
    struct dump_header *header = dump_builder_header(builder);
    header->process_start_realtime_ns = (uint64_t)(start + began * second);
    header->state |= state;
    strcpy(header->run_id, run);
    snprintf(path, sizeof path, "%s/%s", directory, name);
    mkdir(path, 0700);
    snprintf(path, sizeof path, "%s/%s/commtap.%s.00000000000000aa.ct", directory, name, run);
    assert_int_equal(dump_builder_write(builder, path, 0), 0);
    const struct timespec time = {start / second + began + seconds, 0};
    assert_int_equal(utimensat(AT_FDCWD, path, (const struct timespec[]){time, time}, 0), 0);
    dump_builder_free(builder);
}

static const struct prune_rules nothing = {
    .now_ns = INT64_C(1700001000) * 1000000000, .older_ns = INT64_MAX, .most_bytes = UINT64_MAX};

/* Says which of the jobs, in the order of their starts, go: a letter per job. */
static void expect(const struct prune_rules *rules, const char *letters) {
    static const char letter[] = {[PRUNE_NOT] = '-', [PRUNE_OLD] = 'o', [PRUNE_SHORT] = 's', [PRUNE_ROOM] = 'r'};
    struct fleet fleet;
    struct pruned pruned[JOBS_MAX];
    char found[JOBS_MAX + 1] = "";
    assert_true(fleet_find(&fleet, descriptor));
    assert_true(fleet.count <= JOBS_MAX);
    prune_choose(&fleet, rules, pruned);
    for (size_t i = 0; i < fleet.count; i++)
        found[i] = letter[pruned[i].reason];
    assert_string_equal(found, letters);
    fleet_free(&fleet);
}

/* Removes all that may be; returns the errno of the last job that could not be. */
static int remove_all(void (*meanwhile)(void)) {
    struct prune_rules rules = nothing;
    struct fleet fleet;
    struct pruned pruned[JOBS_MAX];
    int error = 0;
    rules.older_ns = 0;
    assert_true(fleet_find(&fleet, descriptor));
    prune_choose(&fleet, &rules, pruned);
    if (meanwhile)
        meanwhile();
    prune_remove(descriptor, fleet.jobs, pruned, fleet.count, false);
    for (size_t i = 0; i < fleet.count; i++)
        error = pruned[i].error ? pruned[i].error : error;
    fleet_free(&fleet);
    return error;
}

/* ---- what is found --------------------------------------------------------------------------------------------- */

static void names_of_ours_are_known(void **state) {
    (void)state;
    static const char *const ours[] = {"commtap.a.b-7.0123456789abcdef.ct",
                                       "commtap.a.b-7.0123456789abcdef.ct.new",
                                       "commtap.a.b-7.0123456789abcdef.stub",
                                       "commtap.a.b-7.0123456789abcdef.staged",
                                       "commtap.a.b-7.ctz",
                                       "commtap.a.b-7.ctz.part",
                                       "commtap.a.b-7.deaths",
                                       "commtap.a.b-7.symbols"};
    static const char *const others[] = {"commtap.a.ct",
                                         "commtap.0123456789abcdef.ct",
                                         "commtap.a.0123456789abcdeg.ct",
                                         "commtap.a.0123456789abcdef.stub.new",
                                         "commtap.a.0123456789abcdef",
                                         "commtap..deaths",
                                         "commtap.deaths",
                                         "xcommtap.a.ctz",
                                         "commtap.a.ctz.bak",
                                         "commtap.py"};
    char run[64];
    for (size_t i = 0; i < sizeof ours / sizeof *ours; i++) {
        assert_true(fleet_run_of(ours[i], run));
        assert_string_equal(run, "a.b-7");
    }
    for (size_t i = 0; i < sizeof others / sizeof *others; i++)
        assert_false(fleet_run_of(others[i], run));
}

static void jobs_are_found_by_directory_and_run(void **state) {
    (void)state;
    struct fleet fleet;
    make_job("one", "r", STATE_EXITED, 20, 1);
    make_job("two", "r", STATE_EXITED, 10, 1);
    make_job("two", "s", 0, 30, 1);
    make_job(".", "top", STATE_EXITED, 40, 1);
    assert_true(fleet_find(&fleet, descriptor));
    assert_int_equal(fleet.count, 4);
    assert_string_equal(fleet.jobs[0].path, "two");
    assert_string_equal(fleet.jobs[1].path, "one");
    assert_string_equal(fleet.jobs[2].run_id, "s");
    assert_int_equal(fleet.jobs[2].state, FLEET_UNKNOWN);
    assert_string_equal(fleet.jobs[3].path, "");
    fleet_free(&fleet);
}

/* A dump of `rank` of job "x" that has forked `children`. */
static void add_process(char digit, int32_t rank, uint32_t generation, uint64_t children) {
    char path[256];
    struct dump_builder *builder = dump_builder_new(&(struct dump_plan){.rank = rank, .world_size = 2});
    dump_builder_header(builder)->generation = generation;
    dump_builder_header(builder)->children = children;
    snprintf(path, sizeof path, "%s/commtap.x.000000000000000%c.ct", directory, digit);
    assert_int_equal(dump_builder_write(builder, path, 0), 0);
    dump_builder_free(builder);
}

static size_t launches_now(void) {
    struct fleet fleet;
    assert_true(fleet_find(&fleet, descriptor));
    assert_int_equal(fleet.count, 1);
    size_t launches = fleet.jobs[0].launches;
    fleet_free(&fleet);
    return launches;
}

/* A script's programs have the names of the first one: each leaves one dump per rank, beside those of forked ones. */
static void launches_are_counted_by_headers(void **state) {
    (void)state;
    add_process('0', 0, 0, 1);
    add_process('1', 1, 0, 0);
    assert_int_equal(launches_now(), 1);
    add_process('2', 0, 0, 0); /* its child */
    assert_int_equal(launches_now(), 1);
    add_process('3', 1, 0, 0);
    assert_int_equal(launches_now(), 2);
    add_process('4', 0, 0, 0);
    assert_int_equal(launches_now(), 2);
    add_process('5', 0, 1, 0); /* a restart */
    assert_int_equal(launches_now(), 3);
    add_process('6', RANK_UNKNOWN, 0, 0);
    add_process('7', RANK_UNKNOWN, 0, 0);
    add_process('8', RANK_UNKNOWN, 0, 0);
    assert_int_equal(launches_now(), 3);
}

static void pack(const char *name, bool remove) {
    char path[256];
    struct packing packing;
    int place = openat(descriptor, name, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    snprintf(path, sizeof path, "%s/%s", directory, name);
    assert_true(pack_directory(&packing, path, place, &(struct pack_request){.ended = true, .remove = remove}));
    packing_free(&packing);
    close(place);
}

static void damage_data(const char *name) {
    struct archive archive;
    struct archive_entry entry;
    char zero[16] = "";
    int file = openat(descriptor, name, O_RDWR | O_CLOEXEC);
    assert_true(archive_open(&archive, descriptor, name, O_NOFOLLOW));
    assert_true(archive_entry_at(&archive, 0, &entry));
    assert_int_equal(pwrite(file, zero, sizeof zero, (off_t)(entry.at + archive_head_bytes(&entry))), sizeof zero);
    archive_close(&archive);
    close(file);
}

/* The headers are packed, too. */
static void packed_jobs_tell_what_loose_ones_do(void **state) {
    (void)state;
    enum { ENDED, KILLED, JOBS };
    struct fleet loose, packed;
    struct prune_rules rules = nothing;
    rules.shorter_ns = 60 * second;
    make_job("a", "a", STATE_FINALISED | STATE_EXITED, 0, 5);
    make_job("b", "b", 0, 1, 5);
    assert_true(fleet_find(&loose, descriptor));
    for (int removed = 0; removed < 2; removed++) { /* what lies there loose and packed counts once */
        pack("a", removed);
        pack("b", removed);
        assert_true(fleet_find(&packed, descriptor));
        assert_int_equal(packed.count, JOBS);
        for (int i = 0; i < JOBS; i++) {
            const struct fleet_job *was = &loose.jobs[i], *is = &packed.jobs[i];
            assert_int_equal(is->dumps, !removed);
            assert_int_equal(is->packed, 1);
            assert_int_equal(is->launches, 1);
            assert_int_equal(is->started_ns, was->started_ns);
            assert_int_equal(is->state, i == ENDED ? FLEET_ENDED : removed ? FLEET_KILLED : FLEET_UNKNOWN);
            assert_string_equal(is->command, was->command);
            assert_string_equal(is->host, was->host);
        }
        fleet_free(&packed);
    }
    rules.shorter_ns = INT64_MAX;
    expect(&rules, "s-");
    damage_data("a/commtap.a.ctz"); /* what does not tell is not short, nor does it take the listing down */
    expect(&rules, "--");
    assert_true(fleet_find(&packed, descriptor));
    assert_int_equal(packed.jobs[ENDED].launches + packed.jobs[KILLED].launches, 1);
    fleet_free(&packed);
    fleet_free(&loose);
}

static void links_are_not_followed(void **state) {
    (void)state;
    struct fleet fleet;
    make_job("one", "r", STATE_EXITED, 0, 1);
    assert_int_equal(symlinkat("one", descriptor, "link"), 0);
    assert_int_equal(mkdirat(descriptor, "two", 0700), 0);
    assert_int_equal(symlinkat("../one/commtap.r.00000000000000aa.ct", descriptor, "two/commtap.r.00000000000000aa.ct"),
                     0);
    assert_true(fleet_find(&fleet, descriptor));
    assert_int_equal(fleet.count, 1);
    assert_string_equal(fleet.jobs[0].path, "one");
    fleet_free(&fleet);
}

/* ---- which ones go --------------------------------------------------------------------------------------------- */

static void old_jobs_go_by_their_last_change(void **state) {
    (void)state;
    struct prune_rules rules = nothing; /* it is 1000 s after the start */
    make_job("a", "a", STATE_EXITED, 0, 100);
    make_job("b", "b", STATE_EXITED, 10, 500);
    rules.older_ns = 899 * second;
    expect(&rules, "o-");
    rules.older_ns = 901 * second;
    expect(&rules, "--");
    rules.older_ns = 0;
    expect(&rules, "oo");
    expect(&nothing, "--");
}

static void short_jobs_go_that_ended_well(void **state) {
    (void)state;
    struct prune_rules rules = nothing;
    make_job("a", "a", STATE_FINALISED | STATE_EXITED, 0, 5);
    make_job("b", "b", STATE_FINALISED | STATE_EXITED, 1, 50);
    make_job("c", "c", 0, 2, 5);            /* who killed it wants to know why it died */
    make_job("d", "d", STATE_EXITED, 3, 5); /* so does whoever let it exit early */
    rules.shorter_ns = 10 * second;
    rules.ended = true;
    expect(&rules, "s---");
    rules.shorter_ns = 5 * second;
    expect(&rules, "----");
    rules.shorter_ns = 51 * second;
    expect(&rules, "ss--");
}

/* What a copy of its files was made at says nothing. */
static void how_long_a_job_ran_is_told_by_its_dumps(void **state) {
    (void)state;
    struct prune_rules rules = nothing;
    char path[256];
    struct dump_builder *builder = dump_builder_new(&(struct dump_plan){.rank = 0, .world_size = 1});
    struct dump_header *header = dump_builder_header(builder);
    header->process_start_realtime_ns = (uint64_t)start;
    header->tick_hz_hint = 2000000000;
    header->activated_ticks = 1000;
    header->exited_ticks = 1000 + UINT64_C(2000000000) * 20;
    header->state |= STATE_FINALISED | STATE_EXITED;
    strcpy(header->run_id, "copied");
    snprintf(path, sizeof path, "%s/commtap.copied.00000000000000aa.ct", directory);
    assert_int_equal(dump_builder_write(builder, path, 0), 0);
    dump_builder_free(builder);
    rules.shorter_ns = 10 * second;
    expect(&rules, "-");
    rules.shorter_ns = 21 * second;
    expect(&rules, "s");
}

static void the_oldest_make_room(void **state) {
    (void)state;
    struct prune_rules rules = nothing;
    struct fleet fleet;
    make_job("a", "a", STATE_EXITED, 0, 1);
    make_job("b", "b", STATE_EXITED, 1, 1);
    make_job("c", "c", STATE_EXITED, 2, 1);
    assert_true(fleet_find(&fleet, descriptor));
    uint64_t bytes = fleet.jobs[0].bytes;
    assert_true(bytes > 0 && fleet.jobs[1].bytes == bytes);
    fleet_free(&fleet);
    const char *const expected[] = {"rrr", "rr-", "r--", "---"};
    for (uint64_t jobs = 0; jobs <= 3; jobs++) {
        rules.most_bytes = jobs * bytes;
        expect(&rules, expected[jobs]);
    }
    rules.most_bytes = 2 * bytes - 1;
    expect(&rules, "rr-");
}

static void whoever_may_still_run_stays(void **state) {
    (void)state;
    struct prune_rules rules = nothing;
    rules.older_ns = 0;
    rules.most_bytes = 0;
    rules.shorter_ns = INT64_MAX;
    make_job("a", "a", 0, 0, 1); /* of another boot */
    make_job("b", "b", STATE_EXITED, 1, 1);
    make_text("b/commtap.b.00000000000000bb.stub",
              "host=node1\n"); /* staged on a node, perhaps by a process that runs */
    make_job("c", "c", STATE_EXITED, 2, 1);
    expect(&rules, "--o");
    rules.ended = true;
    expect(&rules, "ooo");
}

static void write_live_dump(void) {
    char path[256];
    struct dump_builder *builder = dump_builder_new(&(struct dump_plan){.rank = 0, .world_size = 1});
    make_alive(dump_builder_header(builder));
    snprintf(path, sizeof path, "%s/a/commtap.a.00000000000000aa.ct", directory);
    assert_int_equal(dump_builder_write(builder, path, 0), 0);
    dump_builder_free(builder);
}

static void a_running_job_stays_whatever_is_said(void **state) {
    (void)state;
    struct prune_rules rules = nothing;
    rules.older_ns = 0;
    rules.most_bytes = 0;
    rules.ended = true;
    make_job("a", "a", STATE_EXITED, 0, 1);
    write_live_dump();
    rules.now_ns = INT64_MAX;
    expect(&rules, "-");
}

/* Its dump is staged on this host, and only the stub is in the directory. */
static void a_running_job_stays_that_is_staged(void **state) {
    (void)state;
    struct prune_rules rules = nothing;
    struct fleet fleet;
    char path[64], text[512], boot_id[64];
    struct dump_builder *builder = dump_builder_new(&(struct dump_plan){.rank = 0, .world_size = 1});
    make_alive(dump_builder_header(builder));
    snprintf(dump_builder_header(builder)->user, sizeof dump_builder_header(builder)->user, "ada");
    snprintf(path, sizeof path, "/tmp/commtap.s-%d.00000000000000aa.ct", (int)getpid());
    assert_int_equal(dump_builder_write(builder, path, 0), 0);
    dump_builder_free(builder);
    assert_true(process_boot_id(boot_id, sizeof boot_id));
    snprintf(text, sizeof text, "host=here\nboot_id=%s\npath=%s\npid=%d\nrank=0\n", boot_id, path, (int)getpid());
    char name[96];
    snprintf(name, sizeof name, "a/commtap.s-%d.00000000000000aa.stub", (int)getpid());
    assert_int_equal(mkdirat(descriptor, "a", 0700), 0);
    make_text(name, text);
    rules.older_ns = 0;
    rules.ended = true;
    rules.now_ns = INT64_MAX;
    assert_true(fleet_find(&fleet, descriptor));
    assert_int_equal(fleet.count, 1);
    assert_int_equal(fleet.jobs[0].state, FLEET_RUNS);
    assert_int_equal(fleet.jobs[0].dumps, 1);
    assert_string_equal(fleet.jobs[0].user, "ada");
    fleet_free(&fleet);
    expect(&rules, "-");
    assert_int_equal(unlink(path), 0);
    expect(&rules, "o"); /* of a dump that is gone nothing tells that its process runs, which --ended then says */
}

/* ---- what goes ------------------------------------------------------------------------------------------------- */

static void only_what_is_ours_goes(void **state) {
    (void)state;
    make_job("a", "a", STATE_EXITED, 0, 1);
    make_text("a/commtap.a.symbols", "commtap symbols 1\n");
    make_file("a/notes.txt");
    make_file("a/commtap.a.ctz"); /* an archive by its name alone */
    make_file("a/commtap.b.ctz");
    make_file("a/commtap.a.00000000000000cc.ct"); /* a dump by its name alone */
    make_job("b", "b", STATE_EXITED, 0, 1);
    assert_int_equal(symlinkat("notes.txt", descriptor, "a/commtap.a.deaths"), 0);
    assert_int_equal(remove_all(NULL), 0);
    assert_false(is_there("a/commtap.a.00000000000000aa.ct"));
    assert_false(is_there("a/commtap.a.symbols"));
    assert_true(is_there("a/notes.txt"));
    assert_true(is_there("a/commtap.a.ctz"));
    assert_true(is_there("a/commtap.b.ctz"));
    assert_true(is_there("a/commtap.a.00000000000000cc.ct"));
    assert_true(is_there("a/commtap.a.deaths"));
    assert_false(is_there("b")); /* nothing is left in it */
    assert_int_equal(access(directory, F_OK), 0);
}

/* Texts of a user's that have names of ours stay, and are no jobs; what we write there goes. */
static void texts_that_have_our_names_stay(void **state) {
    (void)state;
    static const struct {
        const char *suffix, *ours;
    } kinds[] = {{"symbols", "commtap symbols 1\n"},
                 {"deaths", "ended realtime_ns=1"},
                 {"00000000000000bb.staged", "host=node1\n"}};
    make_job("a", "a", STATE_EXITED, 0, 1);
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++) {
        char name[64];
        snprintf(name, sizeof name, "a/commtap.a.%s", kinds[i].suffix);
        make_text(name, kinds[i].ours);
        snprintf(name, sizeof name, "commtap.theirs.%s", kinds[i].suffix);
        make_file(name);
    }
    make_file("commtap.staged.00000000000000cc.stub");
    make_file("commtap.begun.00000000000000dd.ct.new");
    assert_int_equal(remove_all(NULL), 0);
    assert_false(is_there("a"));
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++) {
        char name[64];
        snprintf(name, sizeof name, "commtap.theirs.%s", kinds[i].suffix);
        assert_true(is_there(name));
    }
}

/* What a dry run says is what a run does then, also in a directory that may not be written to. */
static void a_dry_run_removes_nothing_and_tells_what_it_could_not(void **state) {
    (void)state;
    struct prune_rules rules = nothing;
    struct fleet fleet;
    struct pruned pruned[2];
    rules.older_ns = 0;
    make_job("a", "a", STATE_EXITED, 0, 1);
    make_job("b", "b", STATE_EXITED, 1, 1);
    assert_int_equal(fchmodat(descriptor, "b", 0500, 0), 0);
    assert_true(fleet_find(&fleet, descriptor));
    assert_int_equal(fleet.count, 2);
    for (int dry = 1; dry >= 0; dry--) {
        prune_choose(&fleet, &rules, pruned);
        prune_remove(descriptor, fleet.jobs, pruned, 2, dry);
        assert_true(pruned[0].gone && pruned[0].files == 1 && pruned[0].bytes == fleet.jobs[0].bytes);
        if (geteuid() != 0) /* who may do anything */
            assert_int_equal(pruned[1].error, EACCES);
        assert_int_equal(is_there("a"), dry);
        if (dry)
            assert_true(is_there("b/commtap.b.00000000000000aa.ct"));
    }
    fleet_free(&fleet);
    if (is_there("b"))
        assert_int_equal(fchmodat(descriptor, "b", 0700, 0), 0);
}

static void exchange_directories(void) {
    assert_int_equal(renameat(descriptor, "a", descriptor, "kept"), 0);
    make_job("elsewhere", "a", STATE_EXITED, 0, 1);
    assert_int_equal(symlinkat("elsewhere", descriptor, "a"), 0);
}

static void a_link_in_a_directorys_place_leads_nowhere(void **state) {
    (void)state;
    make_job("a", "a", STATE_EXITED, 0, 1);
    assert_int_not_equal(remove_all(exchange_directories), 0);
    assert_true(is_there("kept/commtap.a.00000000000000aa.ct"));
    assert_true(is_there("elsewhere/commtap.a.00000000000000aa.ct"));
}

static void exchange_for_another_directory(void) {
    assert_int_equal(renameat(descriptor, "a", descriptor, "kept"), 0);
    make_job("a", "a", STATE_EXITED, 0, 1);
}

static void another_directory_of_the_name_is_left(void **state) {
    (void)state;
    make_job("a", "a", STATE_EXITED, 0, 1);
    assert_int_equal(remove_all(exchange_for_another_directory), ESTALE);
    assert_true(is_there("kept/commtap.a.00000000000000aa.ct"));
    assert_true(is_there("a/commtap.a.00000000000000aa.ct"));
}

static void a_job_that_began_meanwhile_stays(void **state) {
    (void)state;
    make_job("a", "a", STATE_EXITED, 0, 1);
    assert_int_equal(remove_all(write_live_dump), EBUSY);
    assert_true(is_there("a/commtap.a.00000000000000aa.ct"));
}

enum { PLACES = 40, RUNS = 3, PER_PARENT = 4, REFUSED = 17 };

/* Several runs in each of several directories of the same parents: whoever removes the last of one takes it away. */
static void make_many_jobs(void) {
    char path[128], run[32];
    for (int i = 0; i < PLACES * RUNS; i++) {
        int place = i / RUNS;
        snprintf(path, sizeof path, "%s/p%d", directory, place / PER_PARENT);
        mkdir(path, 0700);
        snprintf(path, sizeof path, "p%d/d%d", place / PER_PARENT, place);
        snprintf(run, sizeof run, "r%d", i);
        make_job(path, run, STATE_EXITED, i, 1);
    }
}

/* A directory in the place of a file of job REFUSED, which cannot be removed as one. */
static void refuse_one(const struct fleet_job *job) {
    char path[256];
    snprintf(path, sizeof path, "%s/%s", job->path, job->files[0].name);
    assert_int_equal(unlinkat(descriptor, path, 0), 0);
    assert_int_equal(mkdirat(descriptor, path, 0700), 0);
}

/* They are removed by many threads at once; what is said of each is of that one. */
static void jobs_that_are_removed_at_once_do_not_meet(void **state) {
    (void)state;
    struct prune_rules rules = nothing;
    struct fleet fleet;
    struct pruned pruned[PLACES * RUNS];
    rules.older_ns = 0;
    make_many_jobs();
    assert_true(fleet_find(&fleet, descriptor));
    assert_int_equal(fleet.count, PLACES * RUNS);
    prune_choose(&fleet, &rules, pruned);
    pruned[0].reason = PRUNE_NOT;
    refuse_one(&fleet.jobs[REFUSED]);
    prune_remove(descriptor, fleet.jobs, pruned, fleet.count, false);
    for (size_t i = 0; i < fleet.count; i++) {
        char run[32];
        bool goes = i != 0 && i != REFUSED;
        snprintf(run, sizeof run, "r%zu", i);
        assert_string_equal(fleet.jobs[i].run_id, run);
        assert_int_equal(pruned[i].gone, goes);
        assert_int_equal(pruned[i].files, goes);
        assert_int_equal(pruned[i].bytes, goes ? fleet.jobs[i].bytes : 0);
        assert_int_equal(pruned[i].error, i == REFUSED ? ENOTSUP : 0);
        assert_int_equal(is_there(fleet.jobs[i].path), i / RUNS == 0 || i / RUNS == REFUSED / RUNS);
    }
    for (int parent = 0; parent < PLACES / PER_PARENT; parent++) {
        char name[16];
        snprintf(name, sizeof name, "p%d", parent);
        assert_int_equal(is_there(name), parent == 0 || parent == REFUSED / RUNS / PER_PARENT);
    }
    fleet_free(&fleet);
}

#define IN_A_DIRECTORY(TEST) cmocka_unit_test_setup_teardown(TEST, make_directory, remove_directory)

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(names_of_ours_are_known),
        IN_A_DIRECTORY(jobs_are_found_by_directory_and_run),
        IN_A_DIRECTORY(launches_are_counted_by_headers),
        IN_A_DIRECTORY(packed_jobs_tell_what_loose_ones_do),
        IN_A_DIRECTORY(links_are_not_followed),
        IN_A_DIRECTORY(old_jobs_go_by_their_last_change),
        IN_A_DIRECTORY(short_jobs_go_that_ended_well),
        IN_A_DIRECTORY(how_long_a_job_ran_is_told_by_its_dumps),
        IN_A_DIRECTORY(the_oldest_make_room),
        IN_A_DIRECTORY(whoever_may_still_run_stays),
        IN_A_DIRECTORY(a_running_job_stays_whatever_is_said),
        IN_A_DIRECTORY(a_running_job_stays_that_is_staged),
        IN_A_DIRECTORY(only_what_is_ours_goes),
        IN_A_DIRECTORY(texts_that_have_our_names_stay),
        IN_A_DIRECTORY(a_dry_run_removes_nothing_and_tells_what_it_could_not),
        IN_A_DIRECTORY(a_link_in_a_directorys_place_leads_nowhere),
        IN_A_DIRECTORY(another_directory_of_the_name_is_left),
        IN_A_DIRECTORY(a_job_that_began_meanwhile_stays),
        IN_A_DIRECTORY(jobs_that_are_removed_at_once_do_not_meet),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
