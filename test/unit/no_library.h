/* SPDX-License-Identifier: Apache-2.0
 *
 * The search for real functions, in a unit test that is the whole process: it finds none, and every address lies in a
 * library of 64 KiB. To be included once in a program.
 * Must not live here: made-up functions that do something (the tests themselves).
 */
#ifndef COMMTAP_TEST_NO_LIBRARY_H
#define COMMTAP_TEST_NO_LIBRARY_H

#include <string.h>

#include "shim/base/lookup.h"
#include "shim/intercept/resolve.h"
#include "shim/nccl/nccl_copies.h"

/* The wrappers interpose, so they are not part of such a program; nor is what searches for them. */
any_function nccl_entry(unsigned index, unsigned entry) {
    (void)index, (void)entry;
    return NULL;
}
void *lookup_next(const char *name) {
    (void)name;
    return NULL;
}
void *lookup_in_callers_library(const char *name, const void *caller) {
    (void)name, (void)caller;
    return NULL;
}
any_function resolve_absent(const char *name, const void *caller, any_function error) {
    (void)name, (void)caller;
    return error;
}
void *lookup_in_any_library(const char *name) {
    (void)name;
    return NULL;
}
void *lookup_handle(const char *path) {
    (void)path;
    return NULL;
}
void *lookup_by_handle(void *handle, const char *name) {
    (void)handle, (void)name;
    return NULL;
}
void *resolve_in_job_mpi(const char *name) {
    (void)name;
    return NULL;
}
void *resolve_in_provider(const char *name) {
    (void)name;
    return NULL;
}
const char *resolve_provider_path(void) {
    return "";
}
bool lookup_place(const void *address, struct lookup_place *place) {
    place->base = (const void *)((uintptr_t)address & ~(uintptr_t)0xffff); /* libraries of 64 KiB */
    strcpy(place->path, "library");
    return address != NULL;
}
void *lookup_in_loaded(const char *library, const char *name) {
    (void)library, (void)name;
    return NULL;
}

#endif
