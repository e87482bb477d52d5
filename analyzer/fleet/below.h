/* SPDX-License-Identifier: Apache-2.0
 *
 * Directories below the one that a user named, reached so that nobody can lead elsewhere.
 * Lives here: opening them. Must not live here: what is in them.
 */
#ifndef COMMTAP_FLEET_BELOW_H
#define COMMTAP_FLEET_BELOW_H

/* Opens the directory at `path` below the one that `named` has open; "" is that one itself. No part of `path` may be a
 * link. The caller closes it; -1: errno says why, ENOTDIR or ELOOP where a part is no directory or a link. */
int below_open(int named, const char *path);

#endif
