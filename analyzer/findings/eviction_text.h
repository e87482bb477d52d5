/* SPDX-License-Identifier: Apache-2.0
 *
 * The advice on a slow host of an elastic job, in a sentence.
 * Must not live here: the judgement (elastic/eviction.h).
 */
#ifndef COMMTAP_FINDINGS_EVICTION_TEXT_H
#define COMMTAP_FINDINGS_EVICTION_TEXT_H

#include "analyzer/elastic/eviction.h"

enum { EVICTION_TEXT = 768 };
void eviction_say(char text[EVICTION_TEXT], const struct eviction *eviction, const char *host);

#endif
