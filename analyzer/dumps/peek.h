/* SPDX-License-Identifier: Apache-2.0
 *
 * The header of a dump, without opening the dump: for commands that ask thousands of jobs who they were.
 * Lives here: reading it, and whether its process has ended. Must not live here: anything behind the header.
 */
#ifndef COMMTAP_DUMPS_PEEK_H
#define COMMTAP_DUMPS_PEEK_H

#include <stdbool.h>
#include <sys/stat.h>

#include "analyzer/archive/archive.h"
#include "analyzer/dumps/process_state.h"
#include "shim/format.h"

struct peek {
    struct stat status;        /* of the file */
    struct dump_header header; /* texts are terminated; what the writer's version lacks is zero */
};

/* Reads the header of the file `name` in `directory`, following no link. Returns NULL, or why it is no dump. */
const char *peek_dump(int directory, const char *name, struct peek *peek);

/* Reads the header of the dump that the stub `name` in `directory` stands for, where it is staged on this host. False
 * where it is on another one or not there any more, or lies beside the stub already. */
bool peek_staged(int directory, const char *name, struct peek *peek);

/* Reads the header of a packed dump; peek->status is the archive's. False where it cannot be read, or is of no dump. */
bool peek_packed(struct archive *archive, const struct archive_entry *entry, struct peek *peek);

/* Whether nothing will be written into it any more. PROCESS_ELSEWHERE: cannot be told from here. */
enum process_state peek_process(const struct peek *peek);

#endif
