/* SPDX-License-Identifier: Apache-2.0
 *
 * The fields are those of DeepSpeed's communication logger with commtap's own prefix; bandwidths follow the nccl-tests
 * convention (doc/PERFORMANCE.md) with the communicator's own size.
 */
#include "shim/record/verbose.h"

#include <string.h>

#include "shim/base/os.h"
#include "shim/record/recorder.h"

static bool in_list(const char *list, int32_t rank) {
    while (*list) {
        char word[16];
        uint64_t from, to;
        size_t n = strcspn(list, ",");
        copy_text(word, n + 1 < sizeof word ? n + 1 : sizeof word, list);
        char *dash = strchr(word, '-');
        if (dash)
            *dash = '\0';
        if (parse_unsigned(word, &from) && parse_unsigned(dash ? dash + 1 : word, &to) && rank >= 0 &&
            (uint64_t)rank >= from && (uint64_t)rank <= to)
            return true;
        list += n + (list[n] == ',');
    }
    return false;
}

bool verbose_wanted(const char *knob, int32_t rank) {
    static const char *const everyone[] = {"all", "on", "1", "yes", "true"};
    for (size_t i = 0; i < sizeof everyone / sizeof *everyone; i++)
        if (!strcmp(knob, everyone[i]))
            return true;
    return !strncmp(knob, "ranks:", 6) && in_list(knob + 6, rank);
}

/* 0 -> "0B", else base 1024 with one or two decimals: "6.0 MB", "678.86 MB". */
static void add_size(struct text *t, uint64_t bytes) {
    static const char units[][4] = {" B", " KB", " MB", " GB", " TB", " PB", " EB"};
    unsigned unit = 0;
    if (bytes == 0) {
        text_add(t, "0B");
        return;
    }
    while (unit < 6 && bytes >> 10 * (unit + 1))
        unit++;
    text_add_fixed2(t, bytes, 1ull << 10 * unit);
    if (t->length > 1 && t->buffer[t->length - 1] == '0') /* 6.00 -> 6.0, as Python prints a rounded float */
        t->buffer[--t->length] = '\0';
    text_add(t, units[unit]);
}

/* bytes / ns * 8 = Gbit/s, times numerator / denominator. */
static void add_gbps(struct text *t, uint64_t bytes, uint64_t ns, uint64_t numerator, uint64_t denominator) {
    unsigned __int128 hundredth_mbit = (unsigned __int128)bytes * 8 * 100000 * numerator;
    text_add_fixed2(t, ns && denominator ? (uint64_t)(hundredth_mbit / ns / denominator) : 0, 100000);
}

void verbose_line(const struct call *call, uint32_t n, uint64_t bytes, uint64_t time_ticks) {
    verbose_line_ns(call, n, bytes, anchors_ns(&recorder.anchors, time_ticks));
}

void verbose_line_ns(const struct call *call, uint32_t n, uint64_t bytes, uint64_t ns) {
    char line[256];
    struct text t;
    uint64_t numerator = 1, denominator = 1;
    bool sized = bytes != BYTES_UNKNOWN && call->busbw != BUSBW_NONE;
    if (call->busbw == BUSBW_ALLREDUCE || call->busbw == BUSBW_SHARE) {
        numerator = (call->busbw == BUSBW_ALLREDUCE ? 2 : 1) * (uint64_t)(n ? n - 1 : 0);
        denominator = n;
    }
    text_begin(&t, line, sizeof line);
    text_add(&t, "rank ");
    text_add_signed(&t, recorder.header->rank);
    text_add(&t, " | comm op: ");
    text_add(&t, call->name);
    text_add(&t, " | time (ms): ");
    text_add_fixed2(&t, ns, 1000000);
    text_add(&t, " | msg size: ");
    add_size(&t, bytes == BYTES_UNKNOWN ? 0 : bytes);
    text_add(&t, " | algbw (Gbps): ");
    add_gbps(&t, sized ? bytes : 0, ns, 1, 1);
    text_add(&t, " | busbw (Gbps): ");
    add_gbps(&t, sized ? bytes : 0, ns, numerator, denominator);
    print_line(line);
}
