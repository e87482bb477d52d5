/* SPDX-License-Identifier: Apache-2.0
 *
 * Lists of functions, each once.
 * Lives here: the tables in use. Must not live here: dumps.
 */
#include "analyzer/load/call_table.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "analyzer/base/hash.h"

/* A table in use, found by its list's hash: nearly always there is one. */
struct shared {
    struct call_table table; /* first: what is handed out */
    struct shared *next;
    uint64_t hash;
    size_t users;
    struct call_name rows[];
};

enum { CHAINS = 1024 };
static struct shared *tables[CHAINS];
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

static uint64_t hash_of(const struct call_name *rows, uint32_t count) {
    uint64_t hash = count, word;
    for (size_t at = 0; at < count * sizeof *rows; at += sizeof word) {
        memcpy(&word, (const char *)rows + at, sizeof word);
        hash = hash_mix(hash, word);
    }
    return hash;
}
_Static_assert(sizeof(struct call_name) % sizeof(uint64_t) == 0, "a list is whole words");

static bool terminate(char *text, size_t size) {
    bool damaged = !memchr(text, 0, size);
    text[size - 1] = '\0';
    return damaged;
}

/* A private copy first: what is in a file can change between two looks. */
static struct shared *copy_list(const struct call_name *calls, uint32_t count, bool *damaged) {
    size_t bytes = count * sizeof *calls;
    struct shared *copy = calloc(1, sizeof *copy + bytes);
    if (!copy)
        return NULL;
    if (bytes > 0)
        memcpy(copy->rows, calls, bytes);
    for (uint32_t i = 0; i < count; i++) {
        *damaged |= terminate(copy->rows[i].name, sizeof copy->rows[i].name);
        *damaged |= terminate(copy->rows[i].torch, sizeof copy->rows[i].torch);
    }
    copy->table.calls = copy->rows;
    copy->table.count = count;
    copy->hash = hash_of(copy->rows, count);
    copy->users = 1;
    return copy;
}

static struct shared *find_equal(const struct shared *copy) {
    for (struct shared *known = tables[copy->hash % CHAINS]; known; known = known->next)
        if (known->hash == copy->hash && known->table.count == copy->table.count &&
            memcmp(known->rows, copy->rows, copy->table.count * sizeof *copy->rows) == 0)
            return known;
    return NULL;
}

const struct call_table *call_table_share(const struct call_name *calls, uint32_t count, bool *damaged) {
    *damaged = false;
    struct shared *copy = copy_list(calls, count, damaged);
    if (!copy)
        return NULL;
    for (uint32_t i = count; i-- > 0;)
        if (copy->rows[i].id < CALL_TABLE_IDS)
            copy->table.index[copy->rows[i].id] = (uint16_t)i;
    pthread_mutex_lock(&lock);
    struct shared *known = find_equal(copy);
    if (known) {
        known->users++;
    } else {
        copy->next = tables[copy->hash % CHAINS];
        tables[copy->hash % CHAINS] = copy;
    }
    pthread_mutex_unlock(&lock);
    if (known)
        free(copy);
    return &(known ? known : copy)->table;
}

void call_table_release(const struct call_table *table) {
    struct shared *given = (struct shared *)table;
    if (!given)
        return;
    pthread_mutex_lock(&lock);
    bool last = --given->users == 0;
    for (struct shared **place = &tables[given->hash % CHAINS]; last && *place; place = &(*place)->next)
        if (*place == given) {
            *place = given->next;
            break;
        }
    pthread_mutex_unlock(&lock);
    if (last)
        free(given);
}
