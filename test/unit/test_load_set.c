/* SPDX-License-Identifier: Apache-2.0
 *
 * Directories of dumps: order, duplicates, stubs, files that are none.
 * Lives here: real files in a directory of their own.
 * Must not live here: what is inside a dump.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "analyzer/dumps/set.h"
#include "analyzer/load/dump.h"
#include "test/support/dump_builder.h"

static char directory[64];

static int make_directory(void **state) {
    (void)state;
    strcpy(directory, "/tmp/commtap-test-XXXXXX");
    return mkdtemp(directory) ? 0 : -1;
}

static int remove_directory(void **state) {
    (void)state;
    char command[128];
    snprintf(command, sizeof command, "rm -rf %s", directory);
    return system(command);
}

static const char *path_of(const char *name) {
    static char path[128];
    snprintf(path, sizeof path, "%s/%s", directory, name);
    return path;
}

static void write_dump(const char *name, int32_t rank, size_t bytes) {
    struct dump_builder *builder = dump_builder_new(&(struct dump_plan){.rank = rank, .world_size = 4});
    assert_int_equal(dump_builder_write(builder, path_of(name), bytes), 0);
    dump_builder_free(builder);
}

static void write_text(const char *name, const char *text) {
    FILE *file = fopen(path_of(name), "w");
    assert_non_null(file);
    fputs(text, file);
    fclose(file);
}

static void dumps_are_sorted_by_identity_not_by_name(void **state) {
    (void)state;
    struct dump_set set;
    write_dump("commtap.r.a.ct", 3, 0);
    write_dump("commtap.r.b.ct", 1, 0);
    write_dump("commtap.r.c.ct", 2, 0);
    write_dump("commtap.r.d.ct", 1, 0);
    write_text("notes.txt", "no dump");
    assert_int_equal(dump_set_open(directory, &set), DUMP_SET_OK);
    assert_int_equal(set.count, 4);
    static const int32_t ranks[] = {1, 1, 2, 3};
    for (size_t i = 0; i < 4; i++) {
        assert_int_equal(set.dumps[i]->header->rank, ranks[i]);
        assert_int_equal(set.duplicate[i], i == 1);
    }
    assert_non_null(strstr(set.dumps[0]->path, ".b.ct"));
    dump_set_close(&set);
}

static void unknown_ranks_are_no_duplicates(void **state) {
    (void)state;
    struct dump_set set;
    write_dump("commtap.r.a.ct", RANK_UNKNOWN, 0);
    write_dump("commtap.r.b.ct", RANK_UNKNOWN, 0);
    assert_int_equal(dump_set_open(directory, &set), DUMP_SET_OK);
    assert_false(set.duplicate[0] || set.duplicate[1]);
    dump_set_close(&set);
}

static void unusable_files_are_kept_apart(void **state) {
    (void)state;
    struct dump_set set;
    write_dump("commtap.r.a.ct", 0, 0);
    write_dump("commtap.r.b.ct", 1, 100);
    write_text("commtap.r.c.ct", "");
    assert_int_equal(mkdir(path_of("commtap.r.d.ct"), 0700), 0);
    assert_int_equal(mkfifo(path_of("commtap.r.e.ct"), 0600), 0);
    assert_int_equal(symlink("/nonexistent/dump", path_of("commtap.r.f.ct")), 0);
    assert_int_equal(dump_set_open(directory, &set), DUMP_SET_OK);
    assert_int_equal(set.count, 1);
    assert_int_equal(set.unusable_count, 5);
    for (size_t i = 0; i < set.unusable_count; i++) {
        assert_int_equal(set.unusable[i]->problems.count, 1);
        assert_true(set.unusable[i]->problems.items[0].fatal);
    }
    dump_set_close(&set);
}

static void nothing_there_is_said(void **state) {
    (void)state;
    struct dump_set set;
    assert_int_equal(dump_set_open(directory, &set), DUMP_SET_EMPTY);
    assert_int_equal(dump_set_open(path_of("missing"), &set), DUMP_SET_NO_DIRECTORY);
    write_text("file", "text");
    assert_int_equal(dump_set_open(path_of("file"), &set), DUMP_SET_NO_DIRECTORY);
}

#define BOOT_ELSEWHERE "01234567-89ab-cdef-0123-456789abcdef"
#define STUB(NAME)     "host=node7\nboot_id=" BOOT_ELSEWHERE "\npath=/dev/shm/" NAME ".ct\npid=77\nrank=1\nlater=1\n"

static void stubs_stand_for_what_was_not_collected(void **state) {
    (void)state;
    struct dump_set set;
    write_dump("commtap.r.00000000000000aa.ct", 0, 0);
    write_text("commtap.r.00000000000000aa.stub", STUB("commtap.r.00000000000000aa")); /* collected */
    write_text("commtap.r.00000000000000bb.stub", STUB("commtap.r.00000000000000bb"));
    write_text("commtap.r.00000000000000bb.ct", ""); /* which is no dump yet */
    write_text("commtap.r.00000000000000cc.stub", "nonsense");
    write_text("other.stub", "somebody else's");
    assert_int_equal(dump_set_open(directory, &set), DUMP_SET_OK);
    assert_int_equal(set.count, 1);
    assert_int_equal(set.stub_count, 2);
    assert_null(set.stubs[0].damage);
    assert_string_equal(set.stubs[0].host, "node7");
    assert_string_equal(set.stubs[0].staged_path, "/dev/shm/commtap.r.00000000000000bb.ct");
    assert_int_equal(set.stubs[0].rank, 1);
    assert_int_equal(set.stubs[0].pid, 77);
    assert_string_equal(set.stubs[1].damage, "ends in the middle of a line");
    assert_int_equal(set.stubs[1].rank, RANK_UNKNOWN);
    dump_set_close(&set);
    /* a copy of it elsewhere stands for the same dump */
    assert_int_equal(mkdir(path_of("other"), 0700), 0);
    write_text("other/commtap.r.00000000000000bb.stub", STUB("commtap.r.00000000000000bb"));
    char other[300];
    snprintf(other, sizeof other, "%s", path_of("other"));
    assert_int_equal(dump_set_open_all((char *[]){directory, other}, 2, &set), DUMP_SET_OK);
    assert_int_equal(set.stub_count, 2);
    assert_string_equal(set.places.items[1], other);
    dump_set_close(&set);
}

static void what_was_staged_on_this_host_is_read_in_place(void **state) {
    (void)state;
    struct dump_set set;
    char boot_id[64] = "", text[256], name[80], staged[96];
    FILE *file = fopen("/proc/sys/kernel/random/boot_id", "r");
    if (!file || !fgets(boot_id, sizeof boot_id, file))
        skip();
    fclose(file);
    snprintf(name, sizeof name, "commtap.test-load.%016x", (unsigned)getpid());
    snprintf(staged, sizeof staged, "/tmp/%s.ct", name);
    write_dump("commtap.r.a.ct", 2, 0);
    assert_int_equal(rename(path_of("commtap.r.a.ct"), staged), 0);
    snprintf(text, sizeof text, "host=here\nboot_id=%spath=%s\npid=1\nrank=2\n", boot_id, staged);
    strcat(name, ".stub");
    write_text(name, text);
    enum dump_set_result result = dump_set_open(directory, &set);
    unlink(staged);
    assert_int_equal(result, DUMP_SET_OK);
    assert_int_equal(set.count, 1);
    assert_int_equal(set.stub_count, 0);
    assert_int_equal(set.dumps[0]->header->rank, 2);
    dump_set_close(&set);
}

enum { SECOND = 1000000000, EPOCH_S = 1700000000 };

/* Rank 0 of a job whose process was started and made its first call at these seconds, the last one a moment later. */
static void write_process(const char *name, int64_t pid, double started, double called, bool ended, uint64_t children) {
    struct dump_builder *builder = dump_builder_new(&(struct dump_plan){.rank = 0, .world_size = 1});
    struct dump_header *header = dump_builder_header(builder);
    uint64_t origin = (uint64_t)EPOCH_S * SECOND;
    dump_builder_anchor(builder, SECOND, SECOND, origin + SECOND, 0);
    header->pid = pid;
    header->process_start_realtime_ns = origin + (uint64_t)(started * SECOND);
    header->activated_ticks = (uint64_t)(called * SECOND);
    header->children = children;
    if (ended) {
        header->exited_ticks = header->activated_ticks + SECOND / 2;
        header->state |= STATE_EXITED;
    }
    assert_int_equal(dump_builder_write(builder, path_of(name), 0), 0);
    dump_builder_free(builder);
}

/* Of a process that ended at 10.5 s, with a child that is still to be found: whose process began before that, as far as
 * its dump can tell, is the child however late it makes its first call. */
static void a_forked_process_is_of_its_parents_launch(void **state) {
    (void)state;
    static const struct {
        double started;
        uint64_t children;
        bool ended;
        uint32_t launch;
    } cases[] = {{5, 1, true, 0},    {5, 0, true, 1},  {11.4, 1, true, 0}, {11.6, 1, true, 1},
                 {12.5, 1, true, 1}, {5, 1, false, 0}, {5, 0, false, 1}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct dump_set set;
        write_process("commtap.r.a.ct", 100, 0.5, 10, cases[i].ended, cases[i].children);
        write_process("commtap.r.b.ct", 200, cases[i].started, 30, true, 0);
        assert_int_equal(dump_set_open(directory, &set), DUMP_SET_OK);
        assert_int_equal(set.count, 2);
        for (size_t d = 0; d < 2; d++) {
            bool is_parent = set.dumps[d]->header->pid == 100;
            assert_int_equal(set.dumps[d]->launch, is_parent ? 0 : cases[i].launch);
            assert_int_equal(set.duplicate[d], !is_parent && cases[i].launch == 0);
        }
        dump_set_close(&set);
    }
}

/* A child is found once: the next process of that rank is another launch's. */
static void who_has_one_child_has_one(void **state) {
    (void)state;
    struct dump_set set;
    write_process("commtap.r.a.ct", 100, 0.5, 10, true, 1);
    write_process("commtap.r.b.ct", 200, 5, 10.2, true, 0); /* beside its parent */
    write_process("commtap.r.c.ct", 300, 11.2, 30, true, 0);
    assert_int_equal(dump_set_open(directory, &set), DUMP_SET_OK);
    for (size_t d = 0; d < 3; d++)
        assert_int_equal(set.dumps[d]->launch, set.dumps[d]->header->pid == 300);
    dump_set_close(&set);
}

#define IN_DIRECTORY(TEST) cmocka_unit_test_setup_teardown(TEST, make_directory, remove_directory)

int main(void) {
    const struct CMUnitTest tests[] = {
        IN_DIRECTORY(dumps_are_sorted_by_identity_not_by_name),
        IN_DIRECTORY(unknown_ranks_are_no_duplicates),
        IN_DIRECTORY(unusable_files_are_kept_apart),
        IN_DIRECTORY(nothing_there_is_said),
        IN_DIRECTORY(stubs_stand_for_what_was_not_collected),
        IN_DIRECTORY(a_forked_process_is_of_its_parents_launch),
        IN_DIRECTORY(who_has_one_child_has_one),
        IN_DIRECTORY(what_was_staged_on_this_host_is_read_in_place),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
