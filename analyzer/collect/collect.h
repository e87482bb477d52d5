/* SPDX-License-Identifier: Apache-2.0
 *
 * Collection: staged dumps come into the output directory, and go from their nodes where that is asked for.
 * Lives here: what is collected, from this host and from others.
 * Must not live here: words for the user beyond reasons, how a copy gets its name (incoming.h), what a stub may say
 * (dumps/stub.h).
 *
 * A stub whose dump was fetched gets another name (FORMAT_STAGED_SUFFIX) that readers do not look at: as long as the
 * dump lies on its node, too, a later collection can still remove it there.
 *
 * Whoever runs it collects what is his own: the stub and the staged file must belong to the effective user. That holds
 * for root, too: a user who may rename what root is about to copy could have root copy anything, so root collects for
 * another user by becoming that user first.
 */
#ifndef COMMTAP_COLLECT_COLLECT_H
#define COMMTAP_COLLECT_COLLECT_H

#include "analyzer/collect/mapped.h"
#include "analyzer/dumps/stub.h"

enum collect_state {
    COLLECT_NOT = 0,
    COLLECT_STILL_USED, /* copied, but its process still runs: the stub stays and the copy is replaced next time */
    COLLECT_DONE,       /* copied and compared */
};

struct collect_item {
    char *stub_name;
    struct stub stub;
    enum collect_state state;
    bool was_fetched;      /* by an earlier collection, which left it on its node */
    bool is_gone;          /* nothing is left on its node */
    char reason[256];      /* why it was not collected */
    char not_removed[256]; /* why the staged file is still there though it should go; "" = it is not */
    uint32_t sum;          /* of what was copied, before it was marked as a copy */
    uint64_t bytes;
};

struct collection {
    int directory; /* of the stubs and the copies */
    struct collect_item *items;
    size_t count;
    size_t hosts; /* that sound stubs name */
};

struct collect_request {
    const char *ssh;      /* a shell's words, before the host */
    unsigned at_once;     /* hosts */
    unsigned patience_ms; /* how long a host may be silent at a time; 0: for ever */
    bool remove;          /* staged files that were collected */
    const char *boot_id;  /* of this host */
};

/* Why nothing is done about this stub, whatever it says; NULL = nothing is wrong with it. `text` may be used. */
const char *collect_refusal(const struct stub *stub, const char *damage, char *text, size_t size);

/* Collects one dump that was staged on this host. `used`: its process still runs. */
void collect_here(int directory, struct collect_item *item, bool used, bool remove);

/* Collects `count` dumps that were staged on one other host. */
void collect_there(int directory, struct collect_item **items, size_t count, const struct collect_request *request);

/* After collect_here or collect_there: what another collector was faster with has not failed, and what says where a
 * dump lay goes once nothing is left there. */
void collect_finish(int directory, struct collect_item *item);

/* Collects everything below `directory`, an open descriptor. False when memory is short or the directory cannot be
 * read (errno). The caller frees with collect_free. */
bool collect_all(struct collection *collection, int directory, const struct collect_request *request);
void collect_free(struct collection *collection);

/* Notes why an item was not collected. */
void collect_fail(struct collect_item *item, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* After a copy is complete: gives it its place, and renames the stub where the dump's process has ended (`final`). */
struct incoming;
void collect_settle(int directory, struct collect_item *item, struct incoming *incoming, bool final);

#endif
