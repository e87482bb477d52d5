/* SPDX-License-Identifier: Apache-2.0
 *
 * A terminal that a command has to itself for a while: keys as they are pressed, whole frames, and all as it was before
 * at the end, however that comes.
 * Lives here: its settings, its size, keys, drawing, signals meanwhile.
 * Must not live here: what is shown, what keys mean.
 */
#ifndef COMMTAP_SCREEN_TERMINAL_H
#define COMMTAP_SCREEN_TERMINAL_H

#include <stdbool.h>
#include <stddef.h>

enum terminal_key {               /* besides characters, which are their own codes */
                    KEY_NONE = 0, /* nothing was pressed in time; the size may be another one */
                    KEY_ESCAPE = 0x1b,
                    KEY_ENTER = '\r',
                    KEY_BACKSPACE = 0x7f,
                    KEY_UP = 0x100,
                    KEY_DOWN,
                    KEY_PAGE_UP,
                    KEY_PAGE_DOWN,
                    KEY_HOME,
                    KEY_END,
                    KEY_LOST, /* the terminal is gone */
};

enum line_style { STYLE_PLAIN = 0, STYLE_HEADER, STYLE_ALARM, STYLE_FAINT };

struct screen_line {
    const char *text; /* escaped already */
    enum line_style style;
};

/* Takes the terminal of standard input and output. False: that is none; errno says why. */
bool terminal_open(void);
/* Gives it back as it was. Fine when it is not open. */
void terminal_close(void);

/* The signal that asks the program to end, 0 none has. A second one ends it at once, the terminal given back. */
int terminal_signal(void);
/* Ends the program as the signal would have done without this: to be called when all is tidied up. */
void terminal_raise(int number);

void terminal_size(unsigned *rows, unsigned *columns);
/* Waits for a key, at most so long; less where the size changes. */
int terminal_key(int timeout_ms);

/* Draws a whole frame in one piece: lines are cut at the right edge, and what stood below is gone. `color` false: no
 * style is used. False: memory is short. */
bool terminal_draw(const struct screen_line *lines, size_t count, bool color);

#endif
