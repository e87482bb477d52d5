/* SPDX-License-Identifier: Apache-2.0
 *
 * A diagnosis in words.
 * Lives here: the paragraph for a tired person.
 * Must not live here: its parts (phrases.h), judging.
 */
#ifndef COMMTAP_DIAGNOSE_SENTENCES_H
#define COMMTAP_DIAGNOSE_SENTENCES_H

#include "analyzer/diagnose/diagnose.h"

/* Fills diagnosis->sentences. */
void say_all(struct diagnosis *diagnosis, const struct diagnose_request *request);

#endif
