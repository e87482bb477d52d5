/* SPDX-License-Identifier: Apache-2.0
 *
 * Makes a dump one of another host, whose clocks are others: host name, boot id, and every anchor.
 * Lives here: changing a sound dump. Must not live here: checking it.
 *
 *   rehost DUMP HOST SHIFT_NS PPM [container]
 *
 * Afterwards the host's clocks are SHIFT_NS ahead at the dump's first anchor, and run PPM millionths too fast. A
 * container keeps the boot id of its host and has a time name space of its own.
 */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>

#include "shim/format.h"

static void shift(struct clock_anchor *anchors, uint64_t count, int64_t shift_ns, double ppm) {
    uint64_t first = anchors[0].monotonic_ns;
    for (uint64_t i = 0; i < count && anchors[i].version != 0; i++) {
        int64_t ahead = shift_ns + (int64_t)((double)(anchors[i].monotonic_ns - first) * ppm * 1e-6);
        anchors[i].monotonic_ns += (uint64_t)ahead;
        anchors[i].realtime_ns += (uint64_t)ahead;
    }
}

int main(int argc, char **argv) {
    struct stat status;
    int file = argc == 5 || argc == 6 ? open(argv[1], O_RDWR) : -1;
    if (file < 0 || fstat(file, &status) != 0) {
        fprintf(stderr, "usage: rehost DUMP HOST SHIFT_NS PPM [container]\n");
        return 2;
    }
    char *dump = mmap(NULL, (size_t)status.st_size, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    if (dump == MAP_FAILED)
        return 1;
    struct dump_header *header = (struct dump_header *)dump;
    memset(header->host, 0, sizeof header->host);
    snprintf(header->host, sizeof header->host, "%s", argv[2]);
    if (argc == 6) {
        header->time_namespace++;
    } else {
        memset(header->boot_id, 0, sizeof header->boot_id);
        snprintf(header->boot_id, sizeof header->boot_id, "boot of %.20s", argv[2]);
    }
    for (unsigned i = 0; i < SECTIONS_MAX; i++)
        if (header->sections[i].kind == SECTION_ANCHORS)
            shift((struct clock_anchor *)(dump + header->sections[i].offset), header->sections[i].count, atoll(argv[3]),
                  atof(argv[4]));
    return munmap(dump, (size_t)status.st_size) != 0;
}
