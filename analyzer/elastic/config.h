/* SPDX-License-Identifier: Apache-2.0
 *
 * The section "elasticity" of a DeepSpeed configuration.
 * Lives here: its keys, their defaults, types and ranges. Must not live here: opening the file, what follows from it.
 */
#ifndef COMMTAP_ELASTIC_CONFIG_H
#define COMMTAP_ELASTIC_CONFIG_H

#include <jansson.h>

#include "analyzer/elastic/batch.h"

enum { ELASTIC_ERROR = 192 };

/* Reads it from a whole configuration. False: `error` says which key is wrong, and how. */
bool elastic_config_read(const json_t *root, struct elastic_config *config, char error[ELASTIC_ERROR]);
/* All keys with their values, defaults included, under DeepSpeed's names. NULL when memory is short. */
json_t *elastic_config_to_json(const struct elastic_config *config);

#endif
