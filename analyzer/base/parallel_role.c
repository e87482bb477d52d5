/* SPDX-License-Identifier: Apache-2.0 */
#include "analyzer/base/parallel_role.h"

#include <ctype.h>
#include <stddef.h>
#include <string.h>
#include <strings.h>

enum { ROLES_MOST = 4, ROLE_LETTERS = 2 };

static const char *role_of_word(const char *word, size_t length) {
    static const char *const words[][2] = {{"tp", "TP"},     {"tensor", "TP"}, {"dp", "DP"},      {"data", "DP"},
                                           {"ddp", "DP"},    {"fsdp", "DP"},   {"pp", "PP"},      {"pipeline", "PP"},
                                           {"pipe", "PP"},   {"cp", "CP"},     {"context", "CP"}, {"ep", "EP"},
                                           {"expert", "EP"}, {"sp", "SP"},     {"sequence", "SP"}};
    for (size_t i = 0; i < sizeof words / sizeof *words; i++)
        if (strlen(words[i][0]) == length && strncasecmp(word, words[i][0], length) == 0)
            return words[i][1];
    return NULL;
}

const char *parallel_role(char role[PARALLEL_ROLE_TEXT], const char *name) {
    size_t used = 0, count = 0;
    role[0] = '\0';
    while (*name && *name != ',') {
        size_t length = 0;
        while (isalpha((unsigned char)name[length]))
            length++;
        const char *found = length > 0 ? role_of_word(name, length) : NULL;
        if (found && count < ROLES_MOST && !strstr(role, found)) {
            if (count++ > 0)
                role[used++] = '+';
            memcpy(role + used, found, ROLE_LETTERS + 1);
            used += ROLE_LETTERS;
        }
        name += length > 0 ? length : 1;
    }
    return role;
}
