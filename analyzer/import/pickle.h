/* SPDX-License-Identifier: Apache-2.0
 *
 * Python's pickles, as far as they hold data: numbers, strings, lists, tuples and dictionaries.
 * Lives here: the machine that pickles are programs of, without what imports or calls anything.
 * Must not live here: what the values mean.
 *
 * Opcodes as Python's Lib/pickletools.py defines them, of protocols 2 to 5 (PyTorch's own writer uses 2). One that
 * names a class, calls, or refers to something outside of the pickle ends the reading with its offset: nothing is ever
 * imported or run. Nor does a value hold itself, however it was made.
 */
#ifndef COMMTAP_IMPORT_PICKLE_H
#define COMMTAP_IMPORT_PICKLE_H

#include "analyzer/import/json_walk.h"

#define PICKLE_FIRST_BYTE 0x80 /* of protocol 2 and later; no JSON begins so */

/* Reads the source's present document as json_walk does: hands out the elements of its outermost lists, tuples become
 * arrays. All of it is in memory meanwhile, which counts against the limits. Returns false with `error` filled. */
bool pickle_walk(struct import_source *source, struct import_limits *limits, json_piece take, void *context,
                 struct json_error *error);

#endif
