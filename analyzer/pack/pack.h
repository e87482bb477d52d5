/* SPDX-License-Identifier: Apache-2.0
 *
 * The dumps of a directory become one archive per run, and files again.
 * Lives here: which dumps are packed, comparing what was packed with them, removing them afterwards.
 * Must not live here: the archive's layout (archive/), words for the user beyond reasons.
 *
 * An original goes only where that is asked for, once the archive has its name, is on the disk and was compared with
 * it. Whoever runs it packs what is his own, for the reasons that collect.h gives.
 */
#ifndef COMMTAP_PACK_PACK_H
#define COMMTAP_PACK_PACK_H

#include "analyzer/pack/pack_items.h"

struct pack_request {
    bool remove; /* originals, once all is safe */
    bool ended;  /* processes of other hosts, of whose end the dumps say nothing, have ended */
};

/* Packs, or unpacks, all there is in `directory`, which is open as `descriptor`. False when memory is short or the
 * directory cannot be read (errno). The caller frees with packing_free. */
bool pack_directory(struct packing *packing, const char *directory, int descriptor, const struct pack_request *request);
bool unpack_directory(struct packing *packing, const char *directory, int descriptor,
                      const struct pack_request *request);

#endif
