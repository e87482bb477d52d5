/* SPDX-License-Identifier: Apache-2.0 */
#include "analyzer/job/library.h"

#include <ctype.h>
#include <stdio.h>
#include <string.h>

/* The first number with a dot in it: where a version begins. NULL: there is none. */
static const char *find_version(const char *text) {
    for (const char *p = text; (p = strpbrk(p, "0123456789")) != NULL; p += strspn(p, "0123456789")) {
        const char *behind = p + strspn(p, "0123456789");
        if (*behind == '.' && isdigit((unsigned char)behind[1]))
            return p;
    }
    return NULL;
}

/* Cuts what stands between a name and its version: blanks, colons, "v", "Version". */
static void trim_name(char *name) {
    static const char *const ends[] = {" v", " Version", " version", " Library"};
    for (size_t length = strlen(name), before = length + 1; length < before; length = strlen(name)) {
        before = length;
        while (length > 0 && strchr(" \t:", name[length - 1]))
            name[--length] = '\0';
        for (size_t i = 0; i < sizeof ends / sizeof *ends; i++) {
            size_t end = strlen(ends[i]);
            if (length > end && strcmp(name + length - end, ends[i]) == 0)
                name[length - end] = '\0';
        }
    }
}

/* "Open MPI v4.1.4, package: ...", "MPICH Version:\t4.0.2", "Intel(R) MPI Library 2021.8 for Linux* OS" */
void library_name_mpi(struct library *library, const char *text) {
    const char *version = find_version(text);
    int length = version ? (int)(version - text) : (int)strlen(text);
    snprintf(library->name, sizeof library->name, "%.*s", length, text);
    if (version)
        snprintf(library->version, sizeof library->version, "%.*s", (int)strcspn(version, " ,;\t"), version);
    trim_name(library->name);
}

bool library_of_mpi(const struct dump *dump, struct library *library) {
    static const char *const families[] = {"MPI", "Open MPI", "MPICH or a relative of it", "MPI of the standard ABI"};
    uint32_t family = dump->header->mpi_family;
    *library = (struct library){.path = dump->library};
    if (family == 0)
        return false;
    library_name_mpi(library, dump->library_version);
    if (!library->name[0])
        snprintf(library->name, sizeof library->name, "%s",
                 families[family < sizeof families / sizeof *families ? family : 0]);
    return true;
}

/* 2.8.4 is 2804, 2.9.0 and later ones have two digits more: 20900. */
void library_name_nccl(struct library *library, const char *path, uint32_t code) {
    const char *slash = strrchr(path, '/'), *file = slash ? slash + 1 : path;
    uint32_t major = code < 10000 ? 1000 : 10000;
    snprintf(library->name, sizeof library->name, "%s", strncmp(file, "librccl", 7) == 0 ? "RCCL" : "NCCL");
    if (code > 0)
        snprintf(library->version, sizeof library->version, "%u.%u.%u", code / major, code % major / 100, code % 100);
}

bool library_of_nccl(const struct dump *dump, struct library *library) {
    *library = (struct library){.path = dump->nccl_library};
    library_name_nccl(library, dump->nccl_library, dump->header->nccl_version);
    return dump->header->nccl_version > 0 || dump->nccl_library[0];
}
