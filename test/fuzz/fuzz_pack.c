/* SPDX-License-Identifier: Apache-2.0
 *
 * libFuzzer target: packed dumps that are damaged, planted or cut off, and unfinished ones that a call goes on with.
 * Lives here: a sound packed file with pieces put over it, the commands that read it.
 * Must not live here: expectations; a crash, a hang or a sanitizer's report is the finding.
 *
 * Input: a byte of flags (1: the index's checksum is made right again, 2: as an unfinished file, 4: unpacked), then
 * pieces: two bytes of offset, from the end where the highest bit is set; one byte of length, or 255 to cut off there;
 * so many bytes.
 */
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include <zlib.h>

#include "analyzer/pack/pack.h"
#include "test/fuzz/line.h"
#include "test/fuzz/memory.h"
#include "test/support/dump_builder.h"

#define PACKED "commtap.t.ctz"
enum { DUMPS = 3, FROM_END = 0x8000, CUT = 0xff };

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static char directory[96];
static int descriptor;
static uint8_t *sound;
static size_t sound_bytes;

static void write_at(const char *name, const void *data, size_t bytes) {
    int file = openat(descriptor, name, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    if (file < 0 || write(file, data, bytes) != (ssize_t)bytes)
        abort();
    close(file);
}

static void write_dump(int rank) {
    char name[64], path[192];
    struct dump_builder *builder = dump_builder_new(&(struct dump_plan){.rank = rank, .world_size = DUMPS});
    dump_builder_standard_calls(builder);
    dump_builder_world(builder);
    for (uint64_t i = 0; i < 20; i++)
        dump_builder_plain(builder, 0, BUILDER_WAIT, 1000 * i, 1000 * i + 10);
    snprintf(name, sizeof name, "commtap.t.%016x.ct", rank);
    snprintf(path, sizeof path, "%s/%s", directory, name);
    if (dump_builder_write(builder, path, 0) != 0)
        abort();
    dump_builder_free(builder);
}

static void empty_directory(void) {
    static const char *const names[] = {PACKED, PACKED ".part", "commtap.t.0000000000000000.ct",
                                        "commtap.t.0000000000000001.ct", "commtap.t.0000000000000002.ct"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        unlinkat(descriptor, names[i], 0);
}

static void pack_all(void) {
    struct packing packing;
    for (int rank = 0; rank < DUMPS; rank++)
        write_dump(rank);
    if (!pack_directory(&packing, directory, descriptor, &(struct pack_request){.ended = true, .remove = true}))
        abort();
    packing_free(&packing);
}

static void make_sound(void) {
    struct stat status;
    snprintf(directory, sizeof directory, "%s/packed", memory_root());
    mkdir(directory, 0700);
    descriptor = open(directory, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    pack_all();
    int file = openat(descriptor, PACKED, O_RDONLY | O_CLOEXEC);
    if (file < 0 || fstat(file, &status) != 0 || !(sound = malloc((size_t)status.st_size)))
        abort();
    sound_bytes = (size_t)read(file, sound, (size_t)status.st_size);
    close(file);
}

static size_t put_pieces(uint8_t *file, const uint8_t *data, size_t size) {
    size_t bytes = sound_bytes;
    for (size_t at = 0; at + 3 <= size;) {
        size_t offset = data[at] | (size_t)data[at + 1] << 8, length = data[at + 2];
        offset = offset & FROM_END ? bytes - 1 - (offset & ~(size_t)FROM_END) % bytes : offset % bytes;
        at += 3;
        if (length == CUT) {
            bytes = offset + 1;
            continue;
        }
        length = length < size - at ? length : size - at;
        length = length < bytes - offset ? length : bytes - offset;
        memcpy(file + offset, data + at, length);
        at += length;
    }
    return bytes;
}

static void mend_checksum(uint8_t *file, size_t bytes) {
    struct archive_foot foot;
    if (bytes < sizeof foot)
        return;
    memcpy(&foot, file + bytes - sizeof foot, sizeof foot);
    size_t entries = foot.count < DUMPS + 1 ? (size_t)foot.count * sizeof(struct archive_entry) : 0;
    if (entries + sizeof foot > bytes)
        return;
    foot.crc = (uint32_t)crc32(crc32(0, NULL, 0), file + bytes - sizeof foot - entries, (uInt)entries);
    memcpy(file + bytes - sizeof foot, &foot, sizeof foot);
}

static void run_over(const struct command *command, const char *option) {
    struct line line = {.command = command};
    if (option)
        line_add(&line, option);
    line_add(&line, directory);
    line_run(&line);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    if (size < 1)
        return 0;
    if (!sound)
        make_sound();
    uint8_t *file = malloc(sound_bytes);
    if (!file)
        abort();
    memcpy(file, sound, sound_bytes);
    size_t bytes = put_pieces(file, data + 1, size - 1);
    if (data[0] & 1)
        mend_checksum(file, bytes);
    empty_directory();
    write_at(data[0] & 2 ? PACKED ".part" : PACKED, file, bytes);
    if (data[0] & 2)
        write_dump(1);
    if (data[0] & 2)
        run_over(&command_pack, "--ended");
    else if (data[0] & 4)
        run_over(&command_pack, "--unpack");
    run_over(&command_check, NULL);
    run_over(&command_list, NULL);
    free(file);
    return 0;
}
