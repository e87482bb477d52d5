/* SPDX-License-Identifier: Apache-2.0
 *
 * Trace files as a stream of documents: plain, compressed with gzip, and packed with tar before or after that.
 * Lives here: opening, decompressing, and stepping through the members of an archive.
 * Must not live here: what a document says.
 *
 * Memory does not depend on the size of the file.
 */
#ifndef COMMTAP_IMPORT_SOURCE_H
#define COMMTAP_IMPORT_SOURCE_H

#include <stdbool.h>
#include <stdint.h>

#include "analyzer/import/limits.h"

struct import_source;

/* Opens a regular file, whose text counts against the limits. Returns NULL with errno set. */
struct import_source *source_open(const char *path, struct import_limits *limits);
void source_close(struct import_source *source);

/* Goes to the next document. Returns 1, 0 at the end, -1 when the archive or the compression is damaged or cannot be
 * read: source_error says what. */
int source_next(struct import_source *source);
/* The document's name: that of the archive's member, else the file's. Valid until the next document. */
const char *source_document(const struct import_source *source);

/* When the file was last written, ns since 1970; 0: not known, as of an archive's members. */
int64_t source_written_ns(const struct import_source *source);

/* The document's next byte, or -1 at its end or where the file cannot be read on (source_error is then not NULL). */
int source_byte(struct import_source *source);
/* The same byte once more: it stays the next one. */
int source_peek(struct import_source *source);
/* How many bytes of the document (decompressed) have been read. */
uint64_t source_offset(const struct import_source *source);
const char *source_error(const struct import_source *source);
/* A fingerprint of what was read of the document. */
uint64_t source_fingerprint(const struct import_source *source);

#endif
