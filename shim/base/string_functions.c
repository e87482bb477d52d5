/* SPDX-License-Identifier: Apache-2.0
 *
 * The memory and string functions that the library uses, its own compiler's calls of them included: bound within the
 * library, they work before any other library has started, and no sanitizer's interceptor looks at what we read.
 * Must not live here: anything else. What is called often is short, and inlined where its length is known.
 */
#include <string.h>

#ifdef __clang__
#define AS_WRITTEN
#else /* or a loop is taken for the function that it is part of, and calls itself */
#define AS_WRITTEN __attribute__((optimize("no-tree-loop-distribute-patterns")))
#endif

AS_WRITTEN void *memcpy(void *restrict to, const void *restrict from, size_t bytes) {
#ifdef __x86_64__
    void *at = to;
    __asm__ volatile("rep movsb" : "+D"(at), "+S"(from), "+c"(bytes) : : "memory");
#else
    for (size_t i = 0; i < bytes; i++)
        ((unsigned char *)to)[i] = ((const unsigned char *)from)[i];
#endif
    return to;
}

AS_WRITTEN void *memmove(void *to, const void *from, size_t bytes) {
    if ((size_t)((char *)to - (const char *)from) >= bytes)
        return memcpy(to, from, bytes);
    while (bytes-- > 0)
        ((unsigned char *)to)[bytes] = ((const unsigned char *)from)[bytes];
    return to;
}

AS_WRITTEN void *memset(void *to, int value, size_t bytes) {
#ifdef __x86_64__
    void *at = to;
    __asm__ volatile("rep stosb" : "+D"(at), "+c"(bytes) : "a"(value) : "memory");
#else
    for (size_t i = 0; i < bytes; i++)
        ((unsigned char *)to)[i] = (unsigned char)value;
#endif
    return to;
}

AS_WRITTEN int memcmp(const void *a, const void *b, size_t bytes) {
    const unsigned char *x = a, *y = b;
    for (size_t i = 0; i < bytes; i++)
        if (x[i] != y[i])
            return x[i] - y[i];
    return 0;
}

AS_WRITTEN size_t strnlen(const char *s, size_t most) {
    size_t length = 0;
    while (length < most && s[length])
        length++;
    return length;
}

AS_WRITTEN size_t strlen(const char *s) {
    size_t length = 0;
    while (s[length])
        length++;
    return length;
}

AS_WRITTEN int strncmp(const char *a, const char *b, size_t most) {
    for (size_t i = 0; i < most; i++)
        if (a[i] != b[i] || !a[i])
            return (unsigned char)a[i] - (unsigned char)b[i];
    return 0;
}

AS_WRITTEN int strcmp(const char *a, const char *b) {
    while (*a && *a == *b)
        a++, b++;
    return (unsigned char)*a - (unsigned char)*b;
}

AS_WRITTEN char *strchr(const char *s, int c) {
    while (*s != (char)c)
        if (!*s++)
            return NULL;
    return (char *)s;
}

AS_WRITTEN char *strrchr(const char *s, int c) {
    const char *last = NULL;
    do
        if (*s == (char)c)
            last = s;
    while (*s++);
    return (char *)last;
}

AS_WRITTEN char *strstr(const char *text, const char *wanted) {
    size_t length = strlen(wanted);
    for (; *text; text++)
        if (!strncmp(text, wanted, length))
            return (char *)text;
    return length ? NULL : (char *)text;
}

AS_WRITTEN size_t strcspn(const char *s, const char *stops) {
    size_t length = 0;
    while (s[length] && !strchr(stops, s[length]))
        length++;
    return length;
}
