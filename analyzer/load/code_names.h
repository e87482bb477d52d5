/* SPDX-License-Identifier: Apache-2.0
 *
 * Names of the codes that dumps hold for datatypes and reductions (format.h).
 * Lives here: the names. Must not live here: how unknown ones are shown.
 */
#ifndef COMMTAP_LOAD_CODE_NAMES_H
#define COMMTAP_LOAD_CODE_NAMES_H

#include <stdint.h>

/* "float", "int32"; NULL for a code that is none. */
const char *datatype_name(uint8_t code);
/* "sum", "max"; NULL for none, for a user's own and for a code that is none. */
const char *redop_name(uint8_t code);

#endif
