/* SPDX-License-Identifier: Apache-2.0
 *
 * Stubs: what stands in the output directory for a dump that was staged on its node.
 * Lives here: reading one, and telling what the library writes from everything else.
 * Must not live here: opening or copying what a stub points to.
 *
 * A stub may have been planted or damaged, and what it says decides which file is copied and removed. Nothing but
 * what the library itself can have chosen is believed: the path is one of its staging directories and the stub's own
 * name, so that no stub can name another file of the user.
 */
#ifndef COMMTAP_DUMPS_STUB_H
#define COMMTAP_DUMPS_STUB_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#define STUB_NAME_BYTES 112 /* of a dump's file name at most, with its end */

struct stub {
    char host[65], boot_id[41];
    char path[160];                  /* of the staged dump: a staging directory and dump_name */
    char dump_name[STUB_NAME_BYTES]; /* of the dump beside the stub, once it is collected */
    int64_t pid;
    int32_t rank; /* RANK_UNKNOWN when the writer did not know */
    uid_t owner;  /* of the stub's file */
    mode_t mode;  /* of a copy of the dump: the stub's, where that is what COMMTAP_MODE=0640 gives, else 0600 */
};

/* Is `name` meant to be a stub of ours: "commtap.*.stub"? */
bool stub_is_one(const char *name);

/* Is `name` meant to be what the collection makes of a stub whose dump it fetched: "commtap.*.staged"? */
bool stub_is_of_a_fetched_dump(const char *name);

/* The name of the dump that the stub called `name` stands for. False unless the library can have chosen the name:
 * "commtap.<run id>.<16 hex>.stub", or with ".staged" at its end once the dump was fetched. */
bool stub_dump_name(const char *name, char dump_name[STUB_NAME_BYTES]);

/* Reads the stub at `path`, below `directory` where it is relative. Returns NULL, or why it is no sound stub ("is
 * empty"); `stub` then holds what could be read. The text is static. */
const char *stub_read(int directory, const char *path, struct stub *stub);

#endif
