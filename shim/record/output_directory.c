/* SPDX-License-Identifier: Apache-2.0 */
#include "shim/record/output_directory.h"

#include <string.h>

#include "shim/base/directory_pattern.h"
#include "shim/base/os.h"

static void write_number(char *to, size_t size, int64_t number) {
    struct text t;
    text_begin(&t, to, size);
    text_add_signed(&t, number);
}

bool output_directory(char *to, size_t size, const char *pattern, const struct dump_header *identity) {
    char job[64], user[32], host[64], process[24], rank[24] = "x";
    struct text t;
    if (!*pattern || directory_pattern_mistake(pattern)) {
        text_begin(&t, to, size);
        text_add(&t, "commtap-");
        text_add(&t, identity->run_id);
        return t.length + 1 < size;
    }
    directory_clean_word(job, sizeof job, identity->job_id);
    directory_user_word(user, sizeof user, identity->user);
    directory_clean_word(host, sizeof host, identity->host);
    write_number(process, sizeof process, identity->pid);
    if (identity->rank >= 0)
        write_number(rank, sizeof rank, identity->rank);
    const struct directory_words words = {job, user, host, process, rank, "%"};
    return directory_pattern_expand(to, size, pattern, &words);
}

bool output_directory_is_own(const char *pattern) {
    const char *last = strrchr(pattern, '/');
    return !*pattern || directory_pattern_mistake(pattern) || strstr(last ? last : pattern, "%j") ||
           strstr(last ? last : pattern, "%p") || strstr(last ? last : pattern, "%r");
}
