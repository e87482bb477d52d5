/* SPDX-License-Identifier: Apache-2.0
 *
 * What is fetched is compared with its source by a checksum that every host can make.
 * Lives here: the checksum. Must not live here: hosts, and fetching from them (test/e2e).
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cmocka.h>

#include "analyzer/collect/incoming.h"

static uint32_t sum_of(const void *data, size_t bytes) {
    struct incoming incoming = {.file = memfd_create("incoming", MFD_CLOEXEC)};
    uint32_t sum = 0;
    assert_true(incoming.file >= 0);
    assert_int_equal(write(incoming.file, data, bytes), bytes);
    assert_true(incoming_sum(&incoming, &sum));
    close(incoming.file);
    return sum;
}

/* The reference values are what cksum(1) of coreutils 9.1 prints. */
static void the_sum_is_that_of_cksum(void **state) {
    (void)state;
    enum { LARGE = 200003 }; /* several blocks, and no whole number of words */
    unsigned char *data = malloc(LARGE);
    assert_non_null(data);
    for (uint64_t i = 0; i < LARGE; i++)
        data[i] = (unsigned char)(i * i >> 3);
    assert_int_equal(sum_of("", 0), 4294967295u);
    assert_int_equal(sum_of("123456789", 9), 930766865u);
    assert_int_equal(sum_of(data, LARGE), 1775534248u);
    free(data);
}

static void what_cannot_be_read_has_no_sum(void **state) {
    (void)state;
    struct incoming incoming = {.file = -1};
    uint32_t sum;
    assert_false(incoming_sum(&incoming, &sum));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_sum_is_that_of_cksum),
        cmocka_unit_test(what_cannot_be_read_has_no_sum),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
