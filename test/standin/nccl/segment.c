/* SPDX-License-Identifier: Apache-2.0
 *
 * See segment.h. Layout: header, one member per rank, then ranks x ranks pipes (row = sender).
 * The memory starts zeroed, which is every structure's initial state: nobody has to be first.
 */
#include "test/standin/nccl/segment.h"

#include <fcntl.h>
#include <linux/futex.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#define PIPE_DEPTH   4
#define WAIT_MOST_NS 20000000u
#define CACHE_LINE   64

struct header {
    _Atomic uint32_t joined;
};

struct member {
    _Alignas(CACHE_LINE) _Atomic uint32_t bell; /* counts what peers did to this rank's pipes; a futex */
    _Atomic uint32_t asleep;
    _Atomic uint64_t rounds;                        /* exchanges this member has given to */
    unsigned char given[2][SEGMENT_EXCHANGE_BYTES]; /* by parity of the round: nobody is two rounds ahead of anybody */
};

struct chunk {
    uint64_t tag;
    uint64_t arrives;
    size_t bytes;
};

struct pipe {
    _Alignas(CACHE_LINE) _Atomic uint64_t pushed;
    _Alignas(CACHE_LINE) _Atomic uint64_t popped;
    struct chunk chunks[PIPE_DEPTH];
};

struct segment {
    int rank, ranks;
    size_t chunk_bytes, pipe_bytes, bytes;
    char name[64];
    unsigned char *base;
    uint64_t round;
};

uint64_t monotonic_ns(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

static struct header *header_of(struct segment *s) {
    return (struct header *)s->base;
}

static struct member *member_of(struct segment *s, int rank) {
    return (struct member *)(s->base + CACHE_LINE) + rank;
}

static struct pipe *pipe_of(struct segment *s, int from, int to) {
    unsigned char *pipes = (unsigned char *)member_of(s, s->ranks);
    return (struct pipe *)(pipes + ((size_t)from * (size_t)s->ranks + (size_t)to) * s->pipe_bytes);
}

static unsigned char *pipe_data(struct segment *s, struct pipe *p, uint64_t at) {
    return (unsigned char *)(p + 1) + at % PIPE_DEPTH * s->chunk_bytes;
}

/* Smaller chunks for more ranks: the address space, and what of it is touched, stays bounded. */
static size_t chunk_bytes_for(int ranks) {
    return ranks <= 8 ? 32768 : ranks <= 32 ? 8192 : 1024;
}

struct segment *segment_join(uint64_t id, int rank, int ranks) {
    struct segment *s = calloc(1, sizeof *s);
    if (!s)
        return NULL;
    s->rank = rank;
    s->ranks = ranks;
    s->chunk_bytes = chunk_bytes_for(ranks);
    s->pipe_bytes = sizeof(struct pipe) + PIPE_DEPTH * s->chunk_bytes;
    s->bytes = CACHE_LINE + (size_t)ranks * sizeof(struct member) + (size_t)ranks * (size_t)ranks * s->pipe_bytes;
    snprintf(s->name, sizeof s->name, "/nccl-standin-%016llx", (unsigned long long)id);
    int fd = shm_open(s->name, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    void *base = MAP_FAILED;
    if (fd >= 0 && ftruncate(fd, (off_t)s->bytes) == 0)
        base = mmap(NULL, s->bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (fd >= 0)
        close(fd);
    if (base == MAP_FAILED) {
        free(s);
        return NULL;
    }
    s->base = base;
    atomic_fetch_add(&header_of(s)->joined, 1);
    return s;
}

bool segment_complete(struct segment *s) {
    if (atomic_load(&header_of(s)->joined) < (uint32_t)s->ranks)
        return false;
    if (s->name[0])
        shm_unlink(s->name);
    s->name[0] = 0;
    return true;
}

void segment_leave(struct segment *s) {
    munmap(s->base, s->bytes);
    free(s);
}

void segment_give(struct segment *s, const void *data, size_t bytes) {
    struct member *me = member_of(s, s->rank);
    s->round++;
    memcpy(me->given[s->round % 2], data, bytes);
    atomic_store_explicit(&me->rounds, s->round, memory_order_release);
}

bool segment_all_given(struct segment *s) {
    for (int rank = 0; rank < s->ranks; rank++)
        if (atomic_load_explicit(&member_of(s, rank)->rounds, memory_order_acquire) < s->round)
            return false;
    return true;
}

const void *segment_given(struct segment *s, int rank) {
    return member_of(s, rank)->given[s->round % 2];
}

size_t segment_chunk_bytes(const struct segment *s) {
    return s->chunk_bytes;
}

static void futex(_Atomic uint32_t *word, int operation, uint32_t value, const struct timespec *timeout) {
    syscall(SYS_futex, word, operation, value, timeout, NULL, 0);
}

static void ring(struct segment *s, int rank) {
    struct member *m = member_of(s, rank);
    atomic_fetch_add(&m->bell, 1);
    if (atomic_load(&m->asleep))
        futex(&m->bell, FUTEX_WAKE, 1, NULL);
}

void *segment_room(struct segment *s, int to) {
    struct pipe *p = pipe_of(s, s->rank, to);
    uint64_t pushed = atomic_load_explicit(&p->pushed, memory_order_relaxed);
    if (pushed - atomic_load_explicit(&p->popped, memory_order_acquire) == PIPE_DEPTH)
        return NULL;
    return pipe_data(s, p, pushed);
}

void segment_push(struct segment *s, int to, uint64_t tag, size_t bytes, uint64_t arrives) {
    struct pipe *p = pipe_of(s, s->rank, to);
    uint64_t pushed = atomic_load_explicit(&p->pushed, memory_order_relaxed);
    p->chunks[pushed % PIPE_DEPTH] = (struct chunk){.tag = tag, .arrives = arrives, .bytes = bytes};
    atomic_store_explicit(&p->pushed, pushed + 1, memory_order_release);
    ring(s, to);
}

const void *segment_peek(struct segment *s, int from, uint64_t tag, size_t *bytes, uint64_t *wake) {
    struct pipe *p = pipe_of(s, from, s->rank);
    uint64_t popped = atomic_load_explicit(&p->popped, memory_order_relaxed);
    if (popped == atomic_load_explicit(&p->pushed, memory_order_acquire))
        return NULL;
    const struct chunk *c = &p->chunks[popped % PIPE_DEPTH];
    if (c->tag != tag)
        return NULL;
    if (c->arrives && c->arrives > monotonic_ns()) {
        *wake = c->arrives < *wake ? c->arrives : *wake;
        return NULL;
    }
    *bytes = c->bytes;
    return pipe_data(s, p, popped);
}

void segment_pop(struct segment *s, int from) {
    struct pipe *p = pipe_of(s, from, s->rank);
    atomic_fetch_add_explicit(&p->popped, 1, memory_order_release);
    ring(s, from);
}

uint32_t segment_bell(struct segment *s) {
    return atomic_load(&member_of(s, s->rank)->bell);
}

void segment_wait(struct segment *s, uint32_t seen, uint64_t wake) {
    struct member *me = member_of(s, s->rank);
    uint64_t now = monotonic_ns(), most = WAIT_MOST_NS;
    if (wake <= now)
        return;
    if (wake - now < most)
        most = wake - now;
    struct timespec timeout = {.tv_nsec = (long)most};
    atomic_store(&me->asleep, 1);
    futex(&me->bell, FUTEX_WAIT, seen, &timeout);
    atomic_store(&me->asleep, 0);
}
