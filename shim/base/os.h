/* SPDX-License-Identifier: Apache-2.0
 *
 * The little the shim asks of libc and the kernel, in a form that runs on glibc >= 2.28 whatever built it.
 * Lives here: old symbol versions, hashing, text without stdio, messages to stderr, /proc readers.
 * Must not live here: anything that knows what a dump or a communicator is.
 */
#ifndef COMMTAP_SHIM_BASE_OS_H
#define COMMTAP_SHIM_BASE_OS_H

#include <signal.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#define likely(x)   __builtin_expect(!!(x), 1)
#define unlikely(x) __builtin_expect(!!(x), 0)

#define ALWAYS_INLINE inline __attribute__((always_inline))

/* What the constructor runs lies together: a page of code that only it needs is a page fault in every process. */
#define AT_START __attribute__((section(".text.startup")))

/* And data that it writes lies in the one page of data that is written in every process anyway. */
#define WRITTEN_AT_START __attribute__((section(".data")))

/* Symbols that moved into libc in glibc 2.34: ask for the version that every supported glibc still offers, and weakly,
 * since before 2.34 they live in libpthread and libdl, which a program may not have loaded. */
#if defined(__x86_64__)
#define OLD_GLIBC "GLIBC_2.2.5"
#elif defined(__aarch64__)
#define OLD_GLIBC "GLIBC_2.17"
#else
#error "commtap runs on x86-64 and aarch64"
#endif

typedef unsigned int os_pthread_key;
extern int os_pthread_key_create(os_pthread_key *, void (*)(void *)) __attribute__((weak));
extern int os_pthread_setspecific(os_pthread_key, const void *) __attribute__((weak));
__asm__(".symver os_pthread_key_create,pthread_key_create@" OLD_GLIBC);
__asm__(".symver os_pthread_setspecific,pthread_setspecific@" OLD_GLIBC);

/* One mixing step of a 64-bit hash (the finaliser of splitmix64; public domain, Vigna). */
static inline uint64_t hash_mix(uint64_t x) {
    x ^= x >> 30;
    x *= 0xbf58476d1ce4e5b9u;
    x ^= x >> 27;
    x *= 0x94d049bb133111ebu;
    return x ^ (x >> 31);
}

/* One multiplication (by 2^64 over the golden ratio), for tables on the hot path: the upper bits depend on all of x. */
static inline uint64_t hash_spread(uint64_t x) {
    return x * 0x9e3779b97f4a7c15u;
}

/* Order-dependent combination of two hashes. */
static inline uint64_t hash_combine(uint64_t h, uint64_t value) {
    return hash_mix(hash_spread(h) ^ value);
}

uint64_t hash_bytes(uint64_t seed, const void *data, size_t bytes);
uint64_t hash_text(uint64_t seed, const char *text);

/* Text into a buffer of `size` bytes, always terminated; what does not fit is cut. All return the new length. */
struct text {
    char *buffer;
    size_t size;
    size_t length;
};
void text_begin(struct text *t, char *buffer, size_t size);
void text_add(struct text *t, const char *s);
void text_add_unsigned(struct text *t, uint64_t value);
void text_add_signed(struct text *t, int64_t value);
void text_add_hex16(struct text *t, uint64_t value);
/* value / scale with two decimals, rounded half up: 1234567, 1000 -> "1234.57". */
void text_add_fixed2(struct text *t, uint64_t value, uint64_t scale);

/* Copies at most size - 1 bytes and terminates. */
void copy_text(char *to, size_t size, const char *from);

/* Reads a small file; returns the bytes read (terminated), or -1. Never touches errno. */
ssize_t read_small_file(const char *path, char *buffer, size_t size);

/* Around writes of ours: what the kernel sends for them (SIGPIPE where the reader has gone, SIGXFSZ above the job's
 * file size limit, even for reserving room) would end the job. Such signals are held back on this thread and thrown
 * away; those that are the job's reach it afterwards. signals_release keeps errno. */
struct held_signals {
    sigset_t before, jobs;
};
void signals_hold(struct held_signals *held);
void signals_release(const struct held_signals *held);

/* One line on stderr in a single write, without stdio; errno is kept. Where nobody reads, it is dropped. What goes
 * beyond MESSAGE_BYTES is cut: a line has room for two paths. */
#define MESSAGE_BYTES 3072
void print_line(const char *text);
/* The same for what nobody asked for: not after messages_end(). */
void message(const char *text);
void messages_end(void);

/* Parsers that accept nothing but a whole number. */
bool parse_unsigned(const char *text, uint64_t *value);
bool parse_signed(const char *text, int64_t *value);

/* fstat() itself is newer than glibc 2.28 */
struct stat;
bool os_fstat(int fd, struct stat *status);

int32_t os_thread_id(void);
uint64_t os_thread_ran_ns(void); /* processor time of the calling thread: a system call */
uint64_t os_realtime_ns(void);
uint64_t os_monotonic_ns(void);

/* Fresh anonymous memory, zeroed, or NULL. Never freed by the shim unless os_unmap is called. */
void *os_memory(size_t bytes);
void os_unmap(void *memory, size_t bytes);

#endif
