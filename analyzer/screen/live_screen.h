/* SPDX-License-Identifier: Apache-2.0
 *
 * The frames of commtap top, and what its keys do to them.
 * Lives here: the table on a screen, order, filter, scrolling, the page of help and of the verdict.
 * Must not live here: the terminal itself (terminal.h), looking at the job (live_job.h).
 */
#ifndef COMMTAP_SCREEN_LIVE_SCREEN_H
#define COMMTAP_SCREEN_LIVE_SCREEN_H

#include "analyzer/screen/live_job.h"
#include "analyzer/screen/live_table.h"

enum live_page { PAGE_TABLE = 0, PAGE_DIAGNOSIS, PAGE_HELP };

enum live_action { ACTION_DRAW = 0, ACTION_QUIT, ACTION_LOOK, ACTION_DIAGNOSE };

struct live_view {             /* of the rows */
    const struct column *sort; /* NULL: by rank */
    bool reversed;
    const struct filter *filter; /* --rank */
    char wanted[48];             /* what was typed: a list of ranks, or a part of a host, call or communicator */
};

struct live_screen {
    struct live_view view;
    enum live_page page;
    bool typing;  /* a filter */
    size_t first; /* line at the top */
    char *text;   /* of the pages that are no table; owned */
    bool color;
};

/* Makes the table of those rows that the view lets through. Returns false when memory is short; the caller frees with
 * live_table_free in every case. */
bool live_view_table(struct live_table *table, const struct live_view *view, const struct live_rows *rows);

/* What a key asks for; the screen has changed accordingly. */
enum live_action live_screen_key(struct live_screen *screen, int key);
/* Shows a page of text, which the screen takes over, until Escape is pressed. */
void live_screen_show(struct live_screen *screen, enum live_page page, char *text);
/* Draws it. False: memory is short. */
bool live_screen_draw(struct live_screen *screen, const struct live_job *live);
void live_screen_free(struct live_screen *screen);

#endif
