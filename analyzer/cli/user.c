/* SPDX-License-Identifier: Apache-2.0 */
#include "analyzer/cli/user.h"

#include <pwd.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

const char *user_named(const char *user, char name[USER_BYTES]) {
    const size_t length = strlen(user);
    if (length == 0 || length > 9 || strspn(user, "0123456789") != length)
        return user;
    const struct passwd *known = getpwuid((uid_t)strtoul(user, NULL, 10));
    if (!known)
        return user;
    snprintf(name, USER_BYTES, "%s", known->pw_name);
    return name;
}
