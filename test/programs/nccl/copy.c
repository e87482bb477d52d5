/* SPDX-License-Identifier: Apache-2.0
 *
 * A library that says which copy of NCCL it is, and (-DCALLER) a module that is linked to one and asks it.
 */
#ifdef CALLER
int ncclGetUniqueId(char *id);
int which(void);

int which(void) {
    char id[128] = {-1};
    int result = ncclGetUniqueId(id);
    return result ? -result : id[0];
}
#else
int ncclGetUniqueId(char *id);

int ncclGetUniqueId(char *id) {
    id[0] = COPY;
    return 0;
}
#endif
