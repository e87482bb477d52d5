/* SPDX-License-Identifier: Apache-2.0
 *
 * Numbers for people: sizes, times, rates.
 * Lives here: how one number is written.
 * Must not live here: tables.
 */
#ifndef COMMTAP_RENDER_UNITS_H
#define COMMTAP_RENDER_UNITS_H

#include <stddef.h>
#include <stdint.h>

enum { UNITS_TEXT = 32 }; /* room for any of these */

/* Bytes with three significant digits in powers of 1000, as rates are, so that the one divided by a time is the other:
 * "0 B", "512 B", "65.5 kB", "6.29 MB". */
void units_size(char text[UNITS_TEXT], uint64_t bytes);
/* The same as DeepSpeed writes it, in powers of 1024 with up to two decimals: "0B", "8.0 B", "6.0 MB", "678.86 MB". */
void units_deepspeed_size(char text[UNITS_TEXT], uint64_t bytes);
/* A length of time with three significant digits and its unit: "0 ns", "812 ns", "1.25 us", "34.1 ms", "12.0 s". */
void units_time(char text[UNITS_TEXT], uint64_t ns);
/* A number that is none of bytes or seconds: "0", "0.25", "12.3", "456", "4.56 k", "7.89 M". */
void units_number(char text[UNITS_TEXT], double number);
/* Bytes per second in 1e9 bytes: "12.34 GB/s"; below 0.1 GB/s "51.20 MB/s", below 0.1 MB/s in kB/s. */
void units_rate(char text[UNITS_TEXT], double bytes_per_s);

/* A number of nanoseconds as seconds. */
double seconds_of(int64_t ns);

#endif
