/* SPDX-License-Identifier: Apache-2.0
 *
 * Lives here: frames and keys. Must not live here: looking at the job.
 */
#include "analyzer/screen/live_screen.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>

#include "analyzer/base/grow.h"
#include "analyzer/screen/terminal.h"
#include "analyzer/load/filter.h"
#include "analyzer/render/escape.h"
#include "analyzer/render/wrapped_text.h"

static const char keys_line[] = "q quit  d diagnose  s,S sort by  r reverse  / filter  arrows scroll  h help";
static const char page_line[] = "Esc back  arrows scroll  q quit";

/* ---- rows ------------------------------------------------------------------------------------ */

struct wanted {
    const struct live_view *view;
    struct filter ranks; /* of what was typed, where it is a list of ranks */
    bool by_rank;
};

static bool contains(const char *text, const char *part) {
    return strcasestr(text, part) != NULL;
}

static bool is_wanted(const void *context, const struct live_table_row *row) {
    const struct wanted *wanted = context;
    const char *typed = wanted->view->wanted;
    if (wanted->view->filter && !filter_rank(wanted->view->filter, row->row.rank))
        return false;
    if (wanted->by_rank)
        return filter_rank(&wanted->ranks, row->row.rank);
    return contains(row->row.host, typed) || contains(row->doing, typed) || contains(row->row.comm_name, typed) ||
           contains(row->row.behind_comm_name, typed);
}

bool live_view_table(struct live_table *table, const struct live_view *view, const struct live_rows *rows) {
    struct wanted wanted = {.view = view};
    wanted.by_rank = view->wanted[0] && filter_set_ranks(&wanted.ranks, view->wanted) == 0;
    bool done = live_table_make(table, rows, view->sort, view->reversed, is_wanted, &wanted);
    filter_free(&wanted.ranks);
    return done;
}

/* ---- keys ------------------------------------------------------------------------------------ */

/* The next or the one before of the columns that the screen shows. */
static const struct column *next_sort(const struct column *now, int step) {
    size_t count = 1, at = now ? (size_t)(now - live_columns) : 0;
    while (live_columns[count].key)
        count++;
    do
        at = (at + count + (size_t)(step + (int)count)) % count;
    while (!live_columns[at].header);
    return at > 0 ? &live_columns[at] : NULL;
}

static void scroll(struct live_screen *screen, int key) {
    unsigned rows, columns;
    terminal_size(&rows, &columns);
    size_t page = rows > 6 ? rows - 6 : 1, step = key == KEY_PAGE_UP || key == KEY_PAGE_DOWN ? page : 1;
    if (key == KEY_UP || key == KEY_PAGE_UP)
        screen->first = screen->first > step ? screen->first - step : 0;
    else if (key == KEY_DOWN || key == KEY_PAGE_DOWN)
        screen->first += step;
    else
        screen->first = key == KEY_HOME ? 0 : SIZE_MAX / 2; /* drawing stops at the end */
}

static bool is_scroll(int key) {
    return key >= KEY_UP && key <= KEY_END;
}

static enum live_action type(struct live_screen *screen, int key) {
    size_t length = strlen(screen->view.wanted);
    if (key == KEY_ENTER)
        screen->typing = false;
    else if (key == KEY_ESCAPE) {
        screen->typing = false;
        screen->view.wanted[0] = '\0';
    } else if (key == KEY_BACKSPACE && length > 0)
        screen->view.wanted[length - 1] = '\0';
    else if (key < 0x7f && isprint(key) && length + 1 < sizeof screen->view.wanted) {
        screen->view.wanted[length] = (char)key;
        screen->view.wanted[length + 1] = '\0';
    }
    screen->first = 0;
    return ACTION_DRAW;
}

enum {
    HELP_INDENT = 11,
    ROWS_FOR_ALL = 12 /* of less, whom most wait for is not shown beside the verdict, which names who is to blame */
};                    /* the longest header and a blank */

static char *make_help(void) {
    char *text = NULL;
    size_t bytes = 0;
    FILE *stream = open_memstream(&text, &bytes);
    if (!stream)
        return NULL;
    fputs("q        quit\nd        commtap diagnose: why the job hangs; Esc or d: back\n"
          "s, S     order by the next column, or the one before; r: the other way round\n"
          "/        show only: ranks, as in 0,4-7, or a part of a host's, call's or communicator's name; Esc: all\n"
          "blank    look now\n\n",
          stream);
    for (const struct column *column = live_columns; column->key; column++)
        if (column->header) {
            fprintf(stream, "%-10s ", column->header);
            print_wrapped(stream, column->doc, HELP_INDENT, HELP_INDENT);
        }
    if (fclose(stream) == 0)
        return text;
    free(text);
    return NULL;
}

static enum live_action table_key(struct live_screen *screen, int key) {
    switch (key) {
    case 'd':
        return ACTION_DIAGNOSE;
    case ' ':
        return ACTION_LOOK;
    case 's':
    case 'S':
        screen->view.sort = next_sort(screen->view.sort, key == 's' ? 1 : -1);
        return ACTION_DRAW;
    case 'r':
        screen->view.reversed = !screen->view.reversed;
        return ACTION_DRAW;
    case '/':
        screen->typing = true;
        screen->view.wanted[0] = '\0';
        return ACTION_DRAW;
    case 'h':
    case '?':
        live_screen_show(screen, PAGE_HELP, make_help());
        return ACTION_DRAW;
    case KEY_ESCAPE:
        screen->view.wanted[0] = '\0';
        return ACTION_DRAW;
    default:
        return ACTION_DRAW;
    }
}

enum live_action live_screen_key(struct live_screen *screen, int key) {
    if (screen->typing)
        return type(screen, key);
    if (key == 'q')
        return ACTION_QUIT;
    if (is_scroll(key)) {
        scroll(screen, key);
        return ACTION_DRAW;
    }
    if (screen->page == PAGE_TABLE)
        return table_key(screen, key);
    if (key == KEY_ESCAPE || (key == 'd' && screen->page == PAGE_DIAGNOSIS) ||
        ((key == 'h' || key == '?') && screen->page == PAGE_HELP))
        live_screen_show(screen, PAGE_TABLE, NULL);
    return ACTION_DRAW;
}

void live_screen_show(struct live_screen *screen, enum live_page page, char *text) {
    free(screen->text);
    screen->text = text;
    screen->page = page;
    screen->first = 0;
}

void live_screen_free(struct live_screen *screen) {
    free(screen->text);
    *screen = (struct live_screen){0};
}

/* ---- frames ---------------------------------------------------------------------------------- */

struct frame {
    struct screen_line *lines;
    size_t count;
    bool no_memory;
};

static void add_line(struct frame *frame, const char *text, enum line_style style) {
    if (!grow_list(frame->lines, frame->count))
        frame->no_memory = true;
    else
        frame->lines[frame->count++] = (struct screen_line){text, style};
}

/* Cuts a text into lines, and skips the first ones as far as the last ones then still fill the room. */
static void add_text(struct frame *frame, char *text, size_t *first, size_t room) {
    size_t lines = 0, at = 0;
    for (const char *c = text; *c; c++)
        lines += *c == '\n';
    size_t most = lines > room ? lines - room : 0;
    *first = *first < most ? *first : most;
    for (char *line = text, *end; (end = strchr(line, '\n')) != NULL; line = end + 1, at++) {
        *end = '\0';
        if (at >= *first && at < *first + room)
            add_line(frame, line, STYLE_PLAIN);
    }
}

/* The table as it is printed elsewhere; its first line is the header. NULL when memory is short. */
static char *table_text(const struct live_screen *screen, const struct live_job *live) {
    struct live_table rows;
    char *text = NULL;
    size_t bytes = 0;
    FILE *stream = open_memstream(&text, &bytes);
    bool done = stream && live_view_table(&rows, &screen->view, &live->rows);
    if (done) {
        struct table table = live_table_table(&rows);
        done = table_print_text(stream, &table, false);
        live_table_free(&rows);
    }
    if ((stream && fclose(stream) != 0) || !done) {
        free(text);
        return NULL;
    }
    return text;
}

static void say_keys(char *text, size_t size, const struct live_screen *screen) {
    const struct live_view *view = &screen->view;
    if (screen->typing)
        snprintf(text, size, "show only: %s_", view->wanted);
    else if (view->wanted[0])
        snprintf(text, size, "only '%s' (Esc: all)  %s", view->wanted, keys_line);
    else
        snprintf(text, size, "by %s%s  %s", view->sort ? view->sort->header : "rank", view->reversed ? " reversed" : "",
                 keys_line);
}

/* What comes from the job is escaped. NULL when memory is short. */
static char *escaped(const char *text) {
    char *copy = NULL;
    size_t bytes = 0;
    FILE *stream = open_memstream(&copy, &bytes);
    if (!stream)
        return NULL;
    escape_text(stream, text);
    if (fclose(stream) == 0)
        return copy;
    free(copy);
    return NULL;
}

static bool draw_table(struct live_screen *screen, const struct live_job *live, unsigned rows) {
    struct frame frame = {0};
    struct live_text words;
    char keys[256];
    live_text_make(&words, &live->summary, &live->rows, &live->job);
    char *job = escaped(words.job), *state = escaped(words.state), *verdict = escaped(words.verdict);
    char *awaited = escaped(words.awaited);
    char *text = table_text(screen, live), *body = text ? strchr(text, '\n') : NULL;
    bool done = job && state && verdict && awaited && body;
    if (done) {
        *body++ = '\0';
        say_keys(keys, sizeof keys, screen);
        add_line(&frame, job, STYLE_PLAIN);
        add_line(&frame, state, STYLE_PLAIN);
        if (verdict[0])
            add_line(&frame, verdict, words.alarm ? STYLE_ALARM : STYLE_PLAIN);
        if (!verdict[0] || rows >= ROWS_FOR_ALL)
            add_line(&frame, awaited, STYLE_PLAIN);
        add_line(&frame, text, STYLE_HEADER);
        size_t taken = frame.count + 1, room = rows > taken + 1 ? rows - taken : 1;
        add_text(&frame, body, &screen->first, room);
        while (frame.count + 1 < rows && !frame.no_memory)
            add_line(&frame, "", STYLE_PLAIN);
        add_line(&frame, keys, STYLE_FAINT);
        done = !frame.no_memory && terminal_draw(frame.lines, frame.count, screen->color);
    }
    free(frame.lines);
    free(text);
    free(job);
    free(state);
    free(verdict);
    free(awaited);
    return done;
}

static bool draw_page(struct live_screen *screen, unsigned rows) {
    struct frame frame = {0};
    char *text = strdup(screen->text ? screen->text : "out of memory\n");
    bool done = text != NULL;
    if (done) {
        add_text(&frame, text, &screen->first, rows > 2 ? rows - 1 : 1);
        while (frame.count + 1 < rows && !frame.no_memory)
            add_line(&frame, "", STYLE_PLAIN);
        add_line(&frame, page_line, STYLE_FAINT);
        done = !frame.no_memory && terminal_draw(frame.lines, frame.count, screen->color);
    }
    free(frame.lines);
    free(text);
    return done;
}

bool live_screen_draw(struct live_screen *screen, const struct live_job *live) {
    unsigned rows, columns;
    terminal_size(&rows, &columns);
    return screen->page == PAGE_TABLE ? draw_table(screen, live, rows) : draw_page(screen, rows);
}
