/* SPDX-License-Identifier: Apache-2.0
 *
 * Everything here may run inside the job's calls: errno is kept, nothing allocates from the job's heap, nothing
 * blocks.
 */
#include "shim/base/os.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#define STUCK_MS 100

uint64_t hash_bytes(uint64_t seed, const void *data, size_t bytes) {
    const unsigned char *p = data;
    uint64_t h = hash_mix(seed ^ bytes);
    for (; bytes >= 8; p += 8, bytes -= 8) {
        uint64_t word;
        memcpy(&word, p, 8);
        h = hash_combine(h, word);
    }
    uint64_t tail = 0;
    memcpy(&tail, p, bytes);
    return hash_combine(h, tail);
}

uint64_t hash_text(uint64_t seed, const char *text) {
    return hash_bytes(seed, text, strlen(text));
}

void text_begin(struct text *t, char *buffer, size_t size) {
    *t = (struct text){.buffer = buffer, .size = size};
    buffer[0] = '\0';
}

void text_add(struct text *t, const char *s) {
    while (*s && t->length + 1 < t->size)
        t->buffer[t->length++] = *s++;
    t->buffer[t->length] = '\0';
}

void text_add_unsigned(struct text *t, uint64_t value) {
    char digits[24];
    char *p = digits + sizeof digits - 1;
    *p = '\0';
    do
        *--p = (char)('0' + value % 10);
    while (value /= 10);
    text_add(t, p);
}

void text_add_signed(struct text *t, int64_t value) {
    if (value < 0)
        text_add(t, "-");
    text_add_unsigned(t, value < 0 ? 0 - (uint64_t)value : (uint64_t)value);
}

void text_add_hex16(struct text *t, uint64_t value) {
    char digits[17];
    for (int i = 0; i < 16; i++)
        digits[i] = "0123456789abcdef"[value >> (60 - 4 * i) & 15];
    digits[16] = '\0';
    text_add(t, digits);
}

void text_add_fixed2(struct text *t, uint64_t value, uint64_t scale) {
    unsigned __int128 hundredths = ((unsigned __int128)value * 100 + scale / 2) / scale;
    text_add_unsigned(t, (uint64_t)(hundredths / 100));
    char fraction[4] = {'.', (char)('0' + hundredths / 10 % 10), (char)('0' + hundredths % 10), '\0'};
    text_add(t, fraction);
}

void copy_text(char *to, size_t size, const char *from) {
    struct text t;
    text_begin(&t, to, size);
    if (from)
        text_add(&t, from);
}

ssize_t read_small_file(const char *path, char *buffer, size_t size) {
    int saved = errno;
    ssize_t total = -1;
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd >= 0) {
        total = 0;
        while ((size_t)total < size - 1) {
            ssize_t got = read(fd, buffer + total, size - 1 - (size_t)total);
            if (got <= 0)
                break;
            total += got;
        }
        buffer[total] = '\0';
        close(fd);
    }
    errno = saved;
    return total;
}

static sigset_t write_signals(void) {
    sigset_t set;
    sigemptyset(&set);
    sigaddset(&set, SIGPIPE);
    sigaddset(&set, SIGXFSZ);
    return set;
}

/* Blocked first: what is pending then is the job's, whoever sent it. */
void signals_hold(struct held_signals *held) {
    sigset_t set = write_signals();
    sigprocmask(SIG_BLOCK, &set, &held->before);
    sigpending(&held->jobs);
}

void signals_release(const struct held_signals *held) {
    int saved = errno;
    sigset_t set = write_signals();
    if (sigismember(&held->jobs, SIGPIPE))
        sigdelset(&set, SIGPIPE);
    if (sigismember(&held->jobs, SIGXFSZ))
        sigdelset(&set, SIGXFSZ);
    while (sigtimedwait(&set, NULL, &(struct timespec){0}) > 0)
        ;
    sigprocmask(SIG_SETMASK, &held->before, NULL);
    errno = saved;
}

/* A reader that is stuck gets no line: nothing may be stuck with it. */
static bool takes_a_line(int fd) {
    struct pollfd wanted = {.fd = fd, .events = POLLOUT};
    return poll(&wanted, 1, STUCK_MS) == 1 && wanted.revents & POLLOUT;
}

void print_line(const char *text) {
    int saved = errno;
    struct held_signals held;
    char line[MESSAGE_BYTES];
    struct text t;
    text_begin(&t, line, sizeof line - 1);
    text_add(&t, "commtap: ");
    text_add(&t, text);
    line[t.length++] = '\n';
    signals_hold(&held);
    ssize_t ignored = takes_a_line(STDERR_FILENO) ? write(STDERR_FILENO, line, t.length) : 0;
    (void)ignored;
    signals_release(&held);
    errno = saved;
}

static bool silent;

void message(const char *text) {
    if (!silent)
        print_line(text);
}

AT_START void messages_end(void) {
    silent = true;
}

bool parse_unsigned(const char *text, uint64_t *value) {
    uint64_t v = 0;
    if (!*text)
        return false;
    for (; *text; text++) {
        if (*text < '0' || *text > '9' || v > (UINT64_MAX - 9) / 10)
            return false;
        v = v * 10 + (uint64_t)(*text - '0');
    }
    *value = v;
    return true;
}

bool parse_signed(const char *text, int64_t *value) {
    uint64_t magnitude;
    bool negative = *text == '-';
    if (!parse_unsigned(text + negative, &magnitude) || magnitude > INT64_MAX)
        return false;
    *value = negative ? -(int64_t)magnitude : (int64_t)magnitude;
    return true;
}

/* On 64-bit machines the kernel's structure is libc's. */
bool os_fstat(int fd, struct stat *status) {
    return syscall(SYS_fstat, fd, status) == 0;
}

int32_t os_thread_id(void) {
    return (int32_t)syscall(SYS_gettid); /* gettid() itself is newer than glibc 2.28 */
}

static uint64_t clock_ns(clockid_t clock) {
    struct timespec t;
    clock_gettime(clock, &t);
    return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

uint64_t os_thread_ran_ns(void) {
    return clock_ns(CLOCK_THREAD_CPUTIME_ID);
}

uint64_t os_realtime_ns(void) {
    return clock_ns(CLOCK_REALTIME);
}

uint64_t os_monotonic_ns(void) {
    return clock_ns(CLOCK_MONOTONIC);
}

void *os_memory(size_t bytes) {
    int saved = errno;
    void *memory = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    errno = saved;
    return memory == MAP_FAILED ? NULL : memory;
}

void os_unmap(void *memory, size_t bytes) {
    int saved = errno;
    munmap(memory, bytes);
    errno = saved;
}
