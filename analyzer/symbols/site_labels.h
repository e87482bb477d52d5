/* SPDX-License-Identifier: Apache-2.0
 *
 * The compact name of a call site: one line for a whole stack.
 * Lives here: naming a stack after its nearest frame that is no plumbing, once per stack.
 * Must not live here: which frames are plumbing (skip_list.h), trees.
 */
#ifndef COMMTAP_SYMBOLS_SITE_LABELS_H
#define COMMTAP_SYMBOLS_SITE_LABELS_H

#include "analyzer/symbols/frames.h"

struct site_labels;

/* Symbols and list must outlive it. NULL when memory is short; the caller frees with site_labels_free. */
struct site_labels *site_labels_new(struct symbols *symbols, const struct skip_list *skip);
void site_labels_free(struct site_labels *labels);

/* As frame_label: "train_step (train.py:42)"; "(no call stack)" where the dump does not define it. Equal texts are one
 * string, which lives as long as the labels. Looks up what was not looked up before; symbols_want and symbols_resolve
 * for many at once is faster. NULL when memory is short. */
const char *site_label(struct site_labels *labels, size_t dump, uint32_t stack);
/* The function's name alone: calls of one function are one, wherever in it they stand. */
const char *site_caller(struct site_labels *labels, size_t dump, uint32_t stack);

#endif
