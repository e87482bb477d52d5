/* SPDX-License-Identifier: Apache-2.0
 *
 * A page for a browser: one HTML file that holds everything it shows and asks for nothing.
 * Lives here: what stands around the data, putting JSON where nothing in it can end it.
 * Must not live here: which data (page_data.h), how they are drawn (browser/).
 *
 * The parts of the page, and D3, are put together when commtap is built (test/page.mk) and lie in the program. Its
 * Content-Security-Policy lets run only the script with the one hash, and load nothing from anywhere.
 */
#ifndef COMMTAP_PAGE_PAGE_FILE_H
#define COMMTAP_PAGE_PAGE_FILE_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>

/* NULL where pages can be written; otherwise why not. */
const char *page_lacks(void);

/* Begins a page, and ends it. Errors stay in the stream. */
void page_begin(FILE *stream);
void page_end(FILE *stream);

/* One block of data, which the page's scripts find as data-ID (letters and dashes; views have ids of their own). Takes
 * over the reference. Returns false when `json` is NULL (memory is short). */
bool page_add(FILE *stream, const char *id, json_t *json);

/* Whether a file begins as our pages do (new_file_is_ours). */
bool page_is_ours(const char *first, size_t count);

#endif
