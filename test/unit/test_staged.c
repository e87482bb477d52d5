/* SPDX-License-Identifier: Apache-2.0
 *
 * Dumps that not every process can open come to the others as they are; where that does not go all learn it alike.
 * Lives here: processes played by threads, each with dumps of its own. Must not live here: stubs (test_load_set.c),
 * MPI and hosts (e2e).
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

#include "analyzer/archive/codec.h"
#include "analyzer/dumps/staged.h"
#include "test/support/dump_builder.h"
#include "test/unit/played_team.h"

enum { DUMPS = 7, PROCESSES = 3, RECORDS = 100000, FREE = 1 << 30 };

static char directory[64], paths[DUMPS][128];

static int make_dumps(void **state) {
    (void)state;
    if (codec_lacks())
        return 0;
    strcpy(directory, "/tmp/commtap-test-XXXXXX");
    if (!mkdtemp(directory))
        return -1;
    for (int rank = 0; rank < DUMPS; rank++) {
        uint64_t noise = (uint64_t)rank + 1;
        struct dump_builder *builder =
            dump_builder_new(&(struct dump_plan){.rank = rank, .world_size = DUMPS, .ring_records = 1 << 15});
        snprintf(paths[rank], sizeof paths[rank], "%s/commtap.r.%016x.ct", directory, rank);
        dump_builder_standard_calls(builder);
        dump_builder_world(builder);
        dump_builder_anchor(builder, 1000, 1000, 1000000, 0);
        /* the last one is more than a round takes, however well it packs */
        for (uint64_t i = 0; i < (rank == DUMPS - 1 ? RECORDS : 100); i++) {
            noise = noise * UINT64_C(6364136223846793005) + 1442695040888963407;
            dump_builder_plain(builder, 0, BUILDER_WAIT, 1000000 * i + (noise >> 45), 1000000 * i + (noise >> 44));
        }
        dump_builder_header(builder)->state |= STATE_FINALISED | STATE_EXITED;
        if (dump_builder_write(builder, paths[rank], 0) != 0)
            return -1;
        dump_builder_free(builder);
    }
    return 0;
}

static int remove_dumps(void **state) {
    (void)state;
    char command[128];
    snprintf(command, sizeof command, "rm -rf %s", directory);
    return directory[0] ? system(command) : 0;
}

/* What one process sees, and comes to. */
struct part {
    struct player player;
    unsigned able;    /* a bit per dump that it can open */
    uint64_t memory;  /* that is free here */
    bool for_first;   /* the first process alone needs them */
    bool other_stubs; /* it sees what others do not */
    bool contained;   /* it sees none of the others' processes */
    const char *disk; /* a directory for what memory is too little for */
    struct staged staged;
    enum staged_result agreed, exchanged;
};

static uint64_t size_of(const char *path) {
    struct stat status;
    return stat(path, &status) == 0 ? (uint64_t)status.st_blocks * 512 : 4096;
}

static void *share(void *argument) {
    struct part *part = argument;
    struct team *team = &part->player.team;
    if (!staged_begin(&part->staged, DUMPS))
        abort();
    part->staged.memory = part->memory;
    part->staged.disk = part->disk;
    part->staged.processes = part->contained ? "/dev" : "/proc";
    part->staged.for_first = part->for_first;
    part->staged.openers = 2;
    part->staged.round_bytes = 1; /* the least */
    for (size_t i = 0; i < DUMPS; i++) {
        struct staged_dump *dump = &part->staged.dumps[i];
        dump->path = paths[i];
        dump->fingerprint = i + part->other_stubs;
        dump->here = part->able >> i & 1 ? size_of(paths[i]) + 1 : 0;
    }
    part->agreed = staged_agree(team, &part->staged);
    part->exchanged = part->agreed == STAGED_DONE ? staged_exchange(team, &part->staged) : part->agreed;
    if (part->exchanged != STAGED_DONE && part->agreed == STAGED_DONE)
        abort(); /* others would wait */
    return NULL;
}

static void close_all(struct part *parts) {
    for (unsigned p = 0; p < PROCESSES; p++)
        staged_free(&parts[p].staged);
}

/* As if it had been opened where it lies. */
static void is_the_dump(const struct dump *came, const char *path) {
    struct dump *there = dump_open(path);
    assert_non_null(came);
    assert_non_null(there);
    assert_string_equal(came->path, path);
    assert_int_equal(came->bytes, there->bytes);
    assert_int_equal(came->problems.count, there->problems.count);
    assert_int_equal(came->lanes[0].first_ticket, there->lanes[0].first_ticket);
    assert_int_equal(came->lanes[0].end_ticket, there->lanes[0].end_ticket);
    for (uint64_t ticket = there->lanes[0].first_ticket; ticket < there->lanes[0].end_ticket; ticket++) {
        uint64_t slot = ticket & (there->lanes[0].ring_records - 1);
        assert_memory_equal(&came->lanes[0].ring[slot], &there->lanes[0].ring[slot], sizeof(struct record));
    }
    dump_close(there);
}

static void what_one_can_open_comes_to_all(void **state) {
    (void)state;
    if (codec_lacks())
        skip();
    /* dump 0: all can open it; 1: two; 2 and 6: one; 5: nobody */
    struct part parts[PROCESSES] = {
        {.able = 0x01, .memory = FREE}, {.able = 0x53, .memory = FREE}, {.able = 0x0f, .memory = FREE}};
    unsigned exchanges = play_team(share, PROCESSES, parts, sizeof *parts);
    for (unsigned p = 0; p < PROCESSES; p++) {
        assert_int_equal(parts[p].exchanged, STAGED_DONE);
        for (size_t i = 0; i < DUMPS; i++) {
            const struct staged_dump *dump = &parts[p].staged.dumps[i];
            bool able = parts[p].able >> i & 1;
            assert_int_equal(dump->from == STAGED_NOWHERE, i == 5);
            assert_int_equal(dump->travels, i != 0 && i != 5);
            assert_int_equal(dump->wanted, i != 5 && !able);
            if (dump->wanted)
                is_the_dump(dump->dump, paths[i]);
            else
                assert_null(dump->dump);
        }
    }
    assert_int_equal(parts[0].staged.dumps[1].from, 2); /* the second of the two */
    assert_true(exchanges > 7); /* the meeting, and a round of two for each piece of the last one */
    close_all(parts);
}

static void what_all_can_open_stays_where_it_is(void **state) {
    (void)state;
    struct part parts[PROCESSES] = {{.able = 0x7f}, {.able = 0x7f}, {.able = 0x7f}};
    assert_int_equal(play_team(share, PROCESSES, parts, sizeof *parts), 1);
    for (unsigned p = 0; p < PROCESSES; p++)
        assert_int_equal(parts[p].exchanged, STAGED_DONE);
    close_all(parts);
}

static void lenders_get_nothing(void **state) {
    (void)state;
    if (codec_lacks())
        skip();
    struct part parts[PROCESSES] = {{.able = 0x01, .for_first = true, .memory = FREE},
                                    {.able = 0x02, .for_first = true, .memory = FREE},
                                    {.able = 0x0c, .for_first = true, .memory = FREE}};
    play_team(share, PROCESSES, parts, sizeof *parts);
    for (size_t i = 1; i < 4; i++) {
        is_the_dump(parts[0].staged.dumps[i].dump, paths[i]);
        assert_null(parts[1].staged.dumps[i].dump);
        assert_null(parts[2].staged.dumps[i].dump);
    }
    close_all(parts);
}

/* Those of one host that lack the same: 0 and 2. */
static void who_lacks_the_same_reads_one_copy(void **state) {
    (void)state;
    if (codec_lacks())
        skip();
    for (int contained = 0; contained < 2; contained++) {
        struct part parts[PROCESSES] = {{.able = 0x01, .memory = FREE},
                                        {.able = 0x4e, .memory = FREE},
                                        {.able = 0x01, .memory = FREE, .contained = contained}};
        play_team(share, PROCESSES, parts, sizeof *parts);
        assert_int_equal(parts[2].staged.keeper, contained ? 2 : 0);
        assert_int_equal(parts[0].staged.need.copies, contained ? 3 : 2); /* 1 lacks dump 0 */
        for (unsigned p = 0; p < PROCESSES; p += 2)
            for (size_t i = 1; i < DUMPS; i++)
                if (i != 4 && i != 5)
                    is_the_dump(parts[p].staged.dumps[i].dump, paths[i]);
        /* they are the same bytes of the same file */
        bool same = shared_room_place(parts[0].staged.room).inode != 0 &&
                    shared_room_place(parts[0].staged.room).inode == shared_room_place(parts[2].staged.room).inode;
        assert_int_equal(same, !contained);
        close_all(parts);
    }
}

/* Half of what is free is for reading them. */
static void memory_is_looked_at_before_anything_is_sent(void **state) {
    (void)state;
    if (codec_lacks())
        skip();
    uint64_t taken = size_of(paths[2]);
    for (int contained = 0; contained < 2; contained++) /* then each keeps a copy */
        for (int short_of = 0; short_of < 2; short_of++) {
            uint64_t free = 2 * taken * (1 + (uint64_t)contained) - (uint64_t)short_of;
            struct part parts[PROCESSES] = {
                {.memory = FREE}, {.able = 0x04, .memory = FREE}, {.memory = free, .contained = contained}};
            unsigned exchanges = play_team(share, PROCESSES, parts, sizeof *parts);
            for (unsigned p = 0; p < PROCESSES; p++) {
                assert_int_equal(parts[p].exchanged, short_of ? STAGED_TOO_MUCH : STAGED_DONE);
                assert_int_equal(parts[p].staged.need.bytes, taken * (1 + (uint64_t)contained));
                assert_int_equal(parts[p].staged.need.memory, free);
                assert_int_equal(parts[p].staged.need.copies, 1 + contained);
                assert_int_equal(parts[p].staged.need.dumps, 1);
            }
            assert_int_equal(exchanges == 2, short_of); /* two meetings */
            close_all(parts);
        }
}

/* Where the build is there is a disk; /dev/shm lies in memory. */
static void what_memory_is_too_little_for_lies_on_a_disk(void **state) {
    (void)state;
    if (codec_lacks())
        skip();
    struct shared_room *probe = shared_room_make(".");
    uint64_t room = shared_room_free_bytes(probe);
    shared_room_release(probe);
    if (room < 64 * size_of(paths[DUMPS - 1]))
        skip();
    for (int disk = 0; disk < 2; disk++) {
        const char *directory = disk ? "." : "/dev/shm";
        struct part parts[PROCESSES] = {{.memory = 4096, .disk = directory},
                                        {.able = 0x44, .memory = 4096, .disk = directory},
                                        {.memory = 4096, .disk = directory}};
        play_team(share, PROCESSES, parts, sizeof *parts);
        for (unsigned p = 0; p < PROCESSES; p++)
            assert_int_equal(parts[p].exchanged, disk ? STAGED_DONE : STAGED_TOO_MUCH);
        for (unsigned p = 0; disk && p < PROCESSES; p += 2) {
            is_the_dump(parts[p].staged.dumps[2].dump, paths[2]);
            is_the_dump(parts[p].staged.dumps[DUMPS - 1].dump, paths[DUMPS - 1]);
            assert_true(shared_room_free_bytes(parts[0].staged.room) > 0);
        }
        assert_null(parts[1].staged.room);
        close_all(parts);
    }
}

static void one_that_cannot_be_read_is_unusable_and_the_rest_goes_on(void **state) {
    (void)state;
    if (codec_lacks())
        skip();
    char away[sizeof paths[0] + 8];
    snprintf(away, sizeof away, "%s.away", paths[2]);
    assert_int_equal(rename(paths[2], away), 0);
    struct part parts[PROCESSES] = {{.memory = FREE}, {.able = 0x1e, .memory = FREE}, {.memory = FREE}};
    play_team(share, PROCESSES, parts, sizeof *parts);
    assert_int_equal(rename(away, paths[2]), 0);
    for (unsigned p = 0; p < PROCESSES; p += 2) {
        const struct dump *gone = parts[p].staged.dumps[2].dump;
        assert_null(gone->header);
        assert_string_equal(gone->problems.items[0].text, "cannot open: No such file or directory");
        assert_string_equal(gone->path, paths[2]);
        is_the_dump(parts[p].staged.dumps[3].dump, paths[3]);
    }
    close_all(parts);
}

static void who_sees_other_stubs_keeps_to_himself(void **state) {
    (void)state;
    struct part parts[PROCESSES] = {
        {.able = 0x01, .memory = FREE}, {.able = 0x02, .memory = FREE, .other_stubs = true}, {.memory = FREE}};
    assert_int_equal(play_team(share, PROCESSES, parts, sizeof *parts), 1);
    assert_int_equal(parts[0].staged.dumps[0].from, 0);
    assert_int_equal(parts[0].staged.dumps[1].from, STAGED_NOWHERE);
    assert_int_equal(parts[1].staged.dumps[1].from, 1);
    close_all(parts);
}

/* In the second meeting process 1 has come for something else. */
static void *leave_after_agreeing(void *argument) {
    struct part *part = argument;
    struct team *team = &part->player.team;
    struct team_head head;
    if (!staged_begin(&part->staged, 1))
        abort();
    part->staged.memory = FREE;
    part->staged.processes = "/proc";
    part->staged.round_bytes = 1;
    part->staged.dumps[0].path = paths[0];
    part->staged.dumps[0].here = team->number == 0 ? 4097 : 0;
    part->agreed = staged_agree(team, &part->staged);
    if (team->number == 1) {
        team_meet(team, TEAM_END, false, &(struct team_block){(char *)&head, sizeof head}, team->incoming);
        team_free(team, team->incoming);
    } else {
        part->exchanged = staged_exchange(team, &part->staged);
    }
    return NULL;
}

static void one_that_fails_parts_all(void **state) {
    (void)state;
    if (codec_lacks())
        skip();
    struct part parts[PROCESSES] = {0};
    play_team(leave_after_agreeing, PROCESSES, parts, sizeof *parts);
    assert_int_equal(parts[0].exchanged, STAGED_PARTED);
    assert_int_equal(parts[2].exchanged, STAGED_PARTED);
    assert_true(parts[2].player.team.bystander);
    close_all(parts);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_one_can_open_comes_to_all),
        cmocka_unit_test(what_all_can_open_stays_where_it_is),
        cmocka_unit_test(lenders_get_nothing),
        cmocka_unit_test(who_lacks_the_same_reads_one_copy),
        cmocka_unit_test(what_memory_is_too_little_for_lies_on_a_disk),
        cmocka_unit_test(memory_is_looked_at_before_anything_is_sent),
        cmocka_unit_test(one_that_cannot_be_read_is_unusable_and_the_rest_goes_on),
        cmocka_unit_test(who_sees_other_stubs_keeps_to_himself),
        cmocka_unit_test(one_that_fails_parts_all),
    };
    return cmocka_run_group_tests(tests, make_dumps, remove_dumps);
}
