/* SPDX-License-Identifier: Apache-2.0
 *
 * Packed dumps: the same bytes come back, one is read without the others, nothing is lost on the way, and what is wrong
 * with a packed file is named.
 * Lives here: real files in a directory of their own. Must not live here: the command's words (test/e2e).
 */
#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>
#include <zlib.h>

#include <cmocka.h>

#include "analyzer/archive/archive.h"
#include "analyzer/archive/codec.h"
#include "analyzer/archive/rows.h"
#include "analyzer/dumps/process.h"
#include "analyzer/dumps/set.h"
#include "analyzer/pack/pack.h"
#include "test/support/dump_builder.h"

#define PACKED "commtap.r.ctz"
enum { RANKS = 3 };

static const struct pack_request keep = {.ended = true}, remove_originals = {.ended = true, .remove = true};
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

static const char *path_of(const char *name) {
    static char path[256];
    snprintf(path, sizeof path, "%s/%s", directory, name);
    return path;
}

static bool is_there(const char *name) {
    struct stat status;
    return lstat(path_of(name), &status) == 0;
}

static const char *dump_name(int rank) {
    static char name[64];
    snprintf(name, sizeof name, "commtap.r.%016x.ct", rank);
    return name;
}

static struct dump_builder *make_dump(int rank) {
    struct dump_builder *builder = dump_builder_new(&(struct dump_plan){.rank = rank, .world_size = RANKS});
    dump_builder_standard_calls(builder);
    dump_builder_world(builder);
    dump_builder_anchor(builder, 1000, 1000, 1000000, 0);
    for (uint64_t i = 0; i < 200; i++)
        dump_builder_plain(builder, 0, BUILDER_WAIT, 1000 * i, 1000 * i + 10 * (uint64_t)(rank + 1));
    return builder;
}

static void write_dump(int rank) {
    struct dump_builder *builder = make_dump(rank);
    assert_int_equal(dump_builder_write(builder, path_of(dump_name(rank)), 0), 0);
    dump_builder_free(builder);
}

static void write_dumps(void) {
    for (int rank = 0; rank < RANKS; rank++)
        write_dump(rank);
}

static void pack(struct packing *packing, const struct pack_request *request) {
    assert_true(pack_directory(packing, directory, descriptor, request));
}

/* Packs all, of which `done` now. */
static void pack_all(const struct pack_request *request, size_t done) {
    struct packing packing;
    pack(&packing, request);
    for (size_t i = 0; i < packing.count; i++) {
        if (packing.items[i].state == PACK_LEFT)
            print_message("%s: %s\n", packing.items[i].name, packing.items[i].reason);
        assert_int_not_equal(packing.items[i].state, PACK_LEFT);
        done -= packing.items[i].state == PACK_DONE;
    }
    assert_int_equal(done, 0);
    packing_free(&packing);
}

/* The one file that is there is left as it is, for that reason. */
static void is_left(const struct pack_request *request, const char *reason) {
    struct packing packing;
    pack(&packing, request);
    assert_int_equal(packing.count, 1);
    assert_int_equal(packing.items[0].state, PACK_LEFT);
    assert_non_null(strstr(packing.items[0].reason, reason));
    packing_free(&packing);
}

static void open_set(struct dump_set *set, size_t usable, size_t unusable) {
    assert_int_equal(dump_set_open(directory, set), DUMP_SET_OK);
    assert_int_equal(set->count, usable);
    assert_int_equal(set->unusable_count, unusable);
}

/* Of what a dump has checked copies of its own of, a packed one gives the memory back: it reads as zeros. */
static bool may_be_given_back(const struct section *section) {
    return section->kind == SECTION_CALLS || section->kind == SECTION_DEFINITIONS || section->kind == SECTION_ANCHORS;
}

static bool is_zero(const uint8_t *data, size_t bytes) {
    return data[0] == 0 && memcmp(data, data + 1, bytes - 1) == 0;
}

static void holds(const struct dump *dump, const uint8_t *data, size_t bytes) {
    const struct dump_header *header = (const struct dump_header *)data;
    assert_int_equal(dump->bytes, bytes);
    assert_memory_equal(dump->base, data, SECTION_ALIGN);
    for (unsigned i = 0; i < SECTIONS_MAX; i++) {
        const struct section *section = &header->sections[i];
        if (section->kind && (!may_be_given_back(section) || !is_zero(dump->base + section->offset, section->bytes)))
            assert_memory_equal(dump->base + section->offset, data + section->offset, section->bytes);
    }
}

/* The directory's dumps hold what was written, byte by byte. */
static void all_dumps_are_as_they_were(void) {
    struct dump_set set;
    open_set(&set, RANKS, 0);
    for (int rank = 0; rank < RANKS; rank++) {
        struct dump_builder *builder = make_dump(rank);
        size_t bytes;
        const void *data = dump_builder_data(builder, &bytes);
        assert_int_equal(set.dumps[rank]->header->rank, rank);
        holds(set.dumps[rank], data, bytes);
        assert_int_equal(set.dumps[rank]->problems.count, 0);
        dump_builder_free(builder);
    }
    dump_set_close(&set);
}

static uint64_t size_of(const char *name) {
    struct stat status;
    assert_int_equal(stat(path_of(name), &status), 0);
    return (uint64_t)status.st_size;
}

static void cut(const char *name, uint64_t bytes) {
    assert_int_equal(truncate(path_of(name), (off_t)bytes), 0);
}

static void entry_of(int rank, struct archive_entry *entry) {
    struct archive archive;
    assert_true(archive_open(&archive, descriptor, PACKED, 0));
    assert_true(archive_find(&archive, dump_name(rank), entry));
    archive_close(&archive);
}

static void damage(const char *name, uint64_t at) {
    uint8_t byte;
    int file = open(path_of(name), O_RDWR | O_CLOEXEC);
    assert_int_equal(pread(file, &byte, 1, (off_t)at), 1);
    byte ^= 0x40;
    assert_int_equal(pwrite(file, &byte, 1, (off_t)at), 1);
    close(file);
}

/* Where a member's compressed bytes are. */
static uint64_t data_of(const struct archive_entry *entry) {
    return entry->at + archive_head_bytes(entry) + entry->stored_bytes / 2;
}

/* ---- there and back -------------------------------------------------------------------------------------------- */

static void packed_dumps_are_read_as_loose_ones(void **state) {
    (void)state;
    write_dumps();
    all_dumps_are_as_they_were();
    pack_all(&remove_originals, RANKS);
    for (int rank = 0; rank < RANKS; rank++)
        assert_false(is_there(dump_name(rank)));
    all_dumps_are_as_they_were();
}

static void originals_stay_unless_told_otherwise(void **state) {
    (void)state;
    write_dumps();
    pack_all(&keep, RANKS);
    assert_true(is_there(dump_name(1)));
    all_dumps_are_as_they_were(); /* each once */
    pack_all(&remove_originals, 0);
    assert_false(is_there(dump_name(1)));
    all_dumps_are_as_they_were();
}

static void what_comes_later_is_added(void **state) {
    (void)state;
    write_dump(0);
    write_dump(1);
    pack_all(&remove_originals, 2);
    write_dump(2);
    pack_all(&remove_originals, 1);
    all_dumps_are_as_they_were();
}

static void unpacking_gives_the_same_files(void **state) {
    (void)state;
    struct stat before, after;
    struct packing packing;
    write_dumps();
    assert_int_equal(stat(path_of(dump_name(1)), &before), 0);
    pack_all(&remove_originals, RANKS);
    assert_true(unpack_directory(&packing, directory, descriptor, &remove_originals));
    assert_int_equal(packing.count, RANKS);
    for (size_t i = 0; i < packing.count; i++)
        assert_int_equal(packing.items[i].state, PACK_DONE);
    packing_free(&packing);
    assert_false(is_there(PACKED));
    all_dumps_are_as_they_were();
    assert_int_equal(stat(path_of(dump_name(1)), &after), 0);
    assert_int_equal(before.st_size, after.st_size);
    assert_int_equal(before.st_mode, after.st_mode);
    assert_memory_equal(&before.st_mtim, &after.st_mtim, sizeof before.st_mtim);
}

/* Stopped after one file, or done without --delete: the next call does the rest, and the archive goes. */
static void unpacking_goes_on(void **state) {
    (void)state;
    struct packing packing;
    const struct pack_request keep = {.ended = false};
    write_dumps();
    pack_all(&remove_originals, RANKS);
    assert_true(unpack_directory(&packing, directory, descriptor, &keep));
    packing_free(&packing);
    assert_true(is_there(PACKED));
    assert_int_equal(unlink(path_of(dump_name(1))), 0);
    assert_true(unpack_directory(&packing, directory, descriptor, &remove_originals));
    assert_int_equal(packing.count, RANKS);
    for (size_t i = 0; i < packing.count; i++)
        assert_int_equal(packing.items[i].state,
                         strcmp(packing.items[i].name, dump_name(1)) == 0 ? PACK_DONE : PACK_WAS_DONE);
    packing_free(&packing);
    assert_false(is_there(PACKED));
    all_dumps_are_as_they_were();
}

/* One byte of one file differs, where the archive has a hole or not: it stays, and so does the archive. */
static void unpacking_tells_another_file(void **state) {
    (void)state;
    struct packing packing;
    const struct pack_request keep = {.ended = false};
    write_dumps();
    pack_all(&remove_originals, RANKS);
    off_t size = 0;
    for (unsigned i = 0; i < 3; i++) {
        assert_true(unpack_directory(&packing, directory, descriptor, &keep));
        packing_free(&packing);
        size = size_of(dump_name(1));
        int file = open(path_of(dump_name(1)), O_WRONLY | O_CLOEXEC);
        assert_int_equal(pwrite(file, "X", 1, i == 0 ? 9 : i == 1 ? size - 1 : size), 1);
        close(file);
        assert_true(unpack_directory(&packing, directory, descriptor, &remove_originals));
        for (size_t k = 0; k < packing.count; k++)
            if (strcmp(packing.items[k].name, dump_name(1)) == 0) {
                assert_int_equal(packing.items[k].state, PACK_LEFT);
                assert_non_null(strstr(packing.items[k].reason, "another file"));
            }
        packing_free(&packing);
        assert_true(is_there(PACKED));
        assert_int_equal(unlink(path_of(dump_name(1))), 0);
    }
}

static void unpacking_replaces_nothing(void **state) {
    (void)state;
    struct packing packing;
    write_dumps();
    pack_all(&remove_originals, RANKS);
    int file = open(path_of(dump_name(1)), O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
    assert_int_equal(write(file, "mine", 4), 4);
    close(file);
    assert_true(unpack_directory(&packing, directory, descriptor, &remove_originals));
    packing_free(&packing);
    assert_true(is_there(PACKED));
    assert_int_equal(size_of(dump_name(1)), 4);
}

/* ---- which ones ------------------------------------------------------------------------------------------------ */

static void a_dump_that_is_written_to_is_left(void **state) {
    (void)state;
    struct dump_builder *builder = make_dump(0);
    struct dump_header *header = dump_builder_header(builder);
    struct process_look look;
    struct timespec real, boot;
    clock_gettime(CLOCK_REALTIME, &real);
    clock_gettime(CLOCK_BOOTTIME, &boot);
    assert_true(process_look(getpid(), &look));
    assert_true(process_boot_id(header->boot_id, sizeof header->boot_id));
    header->pid = getpid();
    header->process_start_realtime_ns = (uint64_t)((double)(real.tv_sec - boot.tv_sec) * 1e9 + look.started * 1e9);
    assert_int_equal(dump_builder_write(builder, path_of(dump_name(0)), 0), 0);
    is_left(&remove_originals, "still runs");
    assert_true(is_there(dump_name(0)));
    header->state |= STATE_EXITED;
    assert_int_equal(dump_builder_write(builder, path_of(dump_name(0)), 0), 0);
    pack_all(&remove_originals, 1);
    dump_builder_free(builder);
}

static void of_other_hosts_the_user_has_to_say_that_the_job_has_ended(void **state) {
    (void)state;
    write_dump(0);
    is_left(&(struct pack_request){.remove = true}, "--ended");
    assert_true(is_there(dump_name(0)));
    assert_false(is_there(PACKED));
}

static void links_are_left(void **state) {
    (void)state;
    write_dump(0);
    char original[256];
    strcpy(original, path_of(dump_name(0)));
    assert_int_equal(rename(original, path_of("elsewhere")), 0);
    assert_int_equal(symlink("elsewhere", original), 0);
    is_left(&remove_originals, "link");
    assert_true(is_there("elsewhere"));
}

static void a_copy_of_one_that_was_written_to_is_left(void **state) {
    (void)state;
    write_dump(0);
    int file = open(path_of("commtap.r.0000000000000000.stub"), O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
    close(file);
    is_left(&remove_originals, "commtap collect");
}

/* ---- nothing is lost ------------------------------------------------------------------------------------------- */

/* A limit to the length of files stands for a disk that is full: writes fail where it is reached. */
static void a_full_disk_loses_nothing(void **state) {
    (void)state;
    struct rlimit before, small;
    struct packing packing;
    write_dumps();
    pack_all(&keep, RANKS);
    uint64_t whole = size_of(PACKED);
    assert_int_equal(unlink(path_of(PACKED)), 0);
    signal(SIGXFSZ, SIG_IGN);
    assert_int_equal(getrlimit(RLIMIT_FSIZE, &before), 0);
    for (uint64_t room = 0; room < whole; room += whole / 23) {
        small = (struct rlimit){room, before.rlim_max};
        assert_int_equal(setrlimit(RLIMIT_FSIZE, &small), 0);
        bool read = pack_directory(&packing, directory, descriptor, &remove_originals);
        assert_int_equal(setrlimit(RLIMIT_FSIZE, &before), 0);
        assert_true(read);
        for (size_t i = 0; i < packing.count; i++) {
            assert_int_equal(packing.items[i].state, PACK_LEFT);
            assert_non_null(strstr(packing.items[i].reason, "cannot write"));
        }
        packing_free(&packing);
        assert_false(is_there(PACKED));
        assert_false(is_there(PACKED ".part"));
    }
    all_dumps_are_as_they_were();
}

/* Whatever an interrupted call had come to, the next one gives the same as an undisturbed one. */
static void an_interrupted_call_is_gone_on_with(void **state) {
    (void)state;
    struct archive_entry second;
    struct packing packing;
    write_dumps();
    pack_all(&keep, RANKS);
    entry_of(1, &second);
    const uint64_t ends[] = {0,
                             100,
                             second.at,
                             second.at + 10,
                             data_of(&second),
                             second.at + archive_head_bytes(&second) + second.stored_bytes,
                             size_of(PACKED)};
    const size_t whole[] = {0, 0, 1, 1, 1, 2, 3};
    for (size_t i = 0; i < sizeof ends / sizeof *ends; i++) {
        char whole_path[256];
        strcpy(whole_path, path_of(PACKED));
        assert_int_equal(rename(whole_path, path_of(PACKED ".part")), 0);
        cut(PACKED ".part", ends[i]);
        pack(&packing, &keep);
        assert_int_equal(packing.resumed, whole[i]);
        packing_free(&packing);
        assert_false(is_there(PACKED ".part"));
        assert_true(is_there(PACKED));
    }
    pack_all(&remove_originals, 0);
    all_dumps_are_as_they_were();
}

/* The unfinished file of a call that was to add something lacks what the archive holds. */
static void an_interrupted_addition_loses_no_member(void **state) {
    (void)state;
    write_dump(0);
    write_dump(1);
    pack_all(&remove_originals, 2);
    int file = open(path_of(PACKED ".part"), O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
    assert_int_equal(write(file, "torn", 4), 4);
    close(file);
    write_dump(2);
    pack_all(&remove_originals, 1);
    all_dumps_are_as_they_were();
}

static void a_damaged_archive_takes_no_original(void **state) {
    (void)state;
    struct archive_entry entry;
    struct packing packing;
    write_dumps();
    pack_all(&keep, RANKS);
    entry_of(1, &entry);
    damage(PACKED, data_of(&entry));
    pack(&packing, &remove_originals);
    assert_true(packing.items[0].removed);
    assert_int_equal(packing.items[1].state, PACK_LEFT);
    assert_false(packing.items[1].removed);
    assert_true(packing.items[2].removed);
    packing_free(&packing);
    all_dumps_are_as_they_were();
}

static void a_changed_original_stays(void **state) {
    (void)state;
    struct packing packing;
    write_dump(0);
    pack_all(&keep, 1);
    damage(dump_name(0), 4000);
    pack(&packing, &remove_originals);
    assert_int_equal(packing.items[0].state, PACK_LEFT);
    assert_true(is_there(dump_name(0)));
    packing_free(&packing);
}

/* ---- hostile ones ---------------------------------------------------------------------------------------------- */

static void one_damaged_member_costs_that_one(void **state) {
    (void)state;
    struct archive_entry entry;
    struct dump_set set;
    write_dumps();
    pack_all(&remove_originals, RANKS);
    entry_of(1, &entry);
    damage(PACKED, data_of(&entry));
    open_set(&set, RANKS - 1, 1);
    assert_int_equal(set.dumps[0]->header->rank, 0);
    assert_int_equal(set.dumps[1]->header->rank, 2);
    assert_non_null(strstr(set.unusable[0]->path, PACKED ":"));
    assert_non_null(strstr(set.unusable[0]->problems.items[0].text, "data at offset"));
    dump_set_close(&set);
}

static void a_truncated_archive_is_named(void **state) {
    (void)state;
    struct dump_set set;
    write_dumps();
    pack_all(&remove_originals, RANKS);
    uint64_t whole = size_of(PACKED);
    const uint64_t lengths[] = {whole - 1, whole - 32, whole / 2, 40, 5};
    for (size_t i = 0; i < sizeof lengths / sizeof *lengths; i++) {
        cut(PACKED, lengths[i]);
        open_set(&set, 0, 1);
        assert_non_null(strstr(set.unusable[0]->path, PACKED));
        assert_true(set.unusable[0]->problems.items[0].text[0] != '\0');
        dump_set_close(&set);
    }
}

/* Also where there is nothing to add to it: no command will read it. */
static void an_archive_that_cannot_be_used_is_named(void **state) {
    (void)state;
    struct packing packing;
    write_dumps();
    pack_all(&remove_originals, RANKS);
    pack(&packing, &remove_originals);
    assert_int_equal(packing.count, 0);
    packing_free(&packing);
    cut(PACKED, size_of(PACKED) / 2);
    pack(&packing, &remove_originals);
    assert_int_equal(packing.count, 1);
    assert_int_equal(packing.items[0].state, PACK_LEFT);
    assert_string_equal(packing.items[0].name, PACKED);
    assert_true(packing.items[0].reason[0] != '\0');
    packing_free(&packing);
}

/* Changes the index's second entry, and makes its checksum right again. */
static void forge(void (*change)(struct archive_entry *entry)) {
    struct archive_entry entries[RANKS];
    struct archive_foot foot;
    int file = open(path_of(PACKED), O_RDWR | O_CLOEXEC);
    off_t end = lseek(file, 0, SEEK_END) - (off_t)sizeof foot, begin = end - (off_t)sizeof entries;
    assert_int_equal(pread(file, &foot, sizeof foot, end), sizeof foot);
    assert_int_equal(pread(file, entries, sizeof entries, begin), sizeof entries);
    change(&entries[1]);
    foot.crc = (uint32_t)crc32(crc32(0, NULL, 0), (const Bytef *)entries, sizeof entries);
    assert_int_equal(pwrite(file, entries, sizeof entries, begin), sizeof entries);
    assert_int_equal(pwrite(file, &foot, sizeof foot, end), sizeof foot);
    close(file);
}

static void name_another_directory(struct archive_entry *entry) {
    strcpy(entry->name, "x/../../commtap.r.0000000000000001.ct");
}

static void name_nothing_terminated(struct archive_entry *entry) {
    memset(entry->name, 'x', sizeof entry->name);
}

static void name_another_order(struct archive_entry *entry) {
    entry->name[0] = 'a';
}

static void lead_out_of_the_file(struct archive_entry *entry) {
    entry->stored_bytes += UINT64_C(1) << 40;
}

static void lead_around(struct archive_entry *entry) {
    entry->at = UINT64_MAX - 100;
}

static void have_many_extents(struct archive_entry *entry) {
    entry->extent_count = UINT32_MAX;
}

static void lie_in_an_unknown_order(struct archive_entry *entry) {
    entry->rows = ROWS_KINDS;
}

static void an_impossible_index_is_refused(void **state) {
    (void)state;
    void (*const changes[])(struct archive_entry *) = {
        name_another_directory, name_nothing_terminated, name_another_order, lead_out_of_the_file, lead_around,
        have_many_extents,      lie_in_an_unknown_order};
    for (size_t i = 0; i < sizeof changes / sizeof *changes; i++) {
        struct dump_set set;
        write_dumps();
        pack_all(&remove_originals, RANKS);
        forge(changes[i]);
        open_set(&set, 0, 1);
        assert_non_null(strstr(set.unusable[0]->problems.items[0].text, "index entry at offset"));
        dump_set_close(&set);
        assert_int_equal(unlink(path_of(PACKED)), 0);
    }
}

static void be_huge(struct archive_entry *entry) {
    entry->size = entry->data_bytes = UINT64_C(1) << 50;
}

static void a_bomb_is_not_unpacked(void **state) {
    (void)state;
    struct dump_set set;
    write_dumps();
    pack_all(&remove_originals, RANKS);
    forge(be_huge);
    assert_int_equal(dump_set_open(directory, &set), DUMP_SET_TOO_MANY);
    assert_int_equal(set.excess.packed, RANKS);
}

static void differ_from_the_head(struct archive_entry *entry) {
    entry->size += 4096;
}

static void an_index_that_differs_from_a_head_costs_that_one(void **state) {
    (void)state;
    struct dump_set set;
    write_dumps();
    pack_all(&remove_originals, RANKS);
    forge(differ_from_the_head);
    open_set(&set, RANKS - 1, 1);
    assert_non_null(strstr(set.unusable[0]->problems.items[0].text, "head at offset"));
    dump_set_close(&set);
}

#define IN_A_DIRECTORY(TEST) cmocka_unit_test_setup_teardown(TEST, make_directory, remove_directory)

int main(void) {
    const struct CMUnitTest tests[] = {
        IN_A_DIRECTORY(packed_dumps_are_read_as_loose_ones),
        IN_A_DIRECTORY(originals_stay_unless_told_otherwise),
        IN_A_DIRECTORY(what_comes_later_is_added),
        IN_A_DIRECTORY(unpacking_gives_the_same_files),
        IN_A_DIRECTORY(unpacking_goes_on),
        IN_A_DIRECTORY(unpacking_tells_another_file),
        IN_A_DIRECTORY(unpacking_replaces_nothing),
        IN_A_DIRECTORY(a_dump_that_is_written_to_is_left),
        IN_A_DIRECTORY(of_other_hosts_the_user_has_to_say_that_the_job_has_ended),
        IN_A_DIRECTORY(links_are_left),
        IN_A_DIRECTORY(a_copy_of_one_that_was_written_to_is_left),
        IN_A_DIRECTORY(a_full_disk_loses_nothing),
        IN_A_DIRECTORY(an_interrupted_call_is_gone_on_with),
        IN_A_DIRECTORY(an_interrupted_addition_loses_no_member),
        IN_A_DIRECTORY(a_damaged_archive_takes_no_original),
        IN_A_DIRECTORY(a_changed_original_stays),
        IN_A_DIRECTORY(one_damaged_member_costs_that_one),
        IN_A_DIRECTORY(a_truncated_archive_is_named),
        IN_A_DIRECTORY(an_archive_that_cannot_be_used_is_named),
        IN_A_DIRECTORY(an_impossible_index_is_refused),
        IN_A_DIRECTORY(a_bomb_is_not_unpacked),
        IN_A_DIRECTORY(an_index_that_differs_from_a_head_costs_that_one),
    };
    if (codec_lacks()) {
        puts(codec_lacks());
        return 0;
    }
    return cmocka_run_group_tests(tests, NULL, NULL);
}
