/* SPDX-License-Identifier: Apache-2.0
 *
 * Links as a table, as a matrix and as JSON.
 * Lives here: keys and looks of the columns, who stands where in the matrix.
 * Must not live here: figures.
 */
#ifndef COMMTAP_RENDER_LINK_ROWS_H
#define COMMTAP_RENDER_LINK_ROWS_H

#include "analyzer/profile/link_table.h"
#include "analyzer/render/table.h"

enum { LINK_MATRIX_MOST = 16 }; /* ends that a line of 100 columns may have room for */

/* Columns over struct link_row. */
extern const struct column link_columns[];

/* The table of all rows. */
struct table link_rows_table(const struct link_table *links);

/* Prints from whom (down) how much of `column` went to whom (across), of the first kind of link that there is. *fits:
 * whether it was narrow enough to be printed. Returns false when memory is short. */
bool link_matrix_print(FILE *stream, const struct link_table *links, const struct column *column, bool color,
                       bool *fits);

/* Collectives that no link is charged with: [{op, calls, bytes, reason}]. */
json_t *links_left_out_to_json(const struct link_table *links);
void links_left_out_print(FILE *stream, const struct link_table *links);

#endif
