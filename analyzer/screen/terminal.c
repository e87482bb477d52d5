/* SPDX-License-Identifier: Apache-2.0
 *
 * Lives here: settings, signals, keys, frames. Must not live here: what is shown.
 */
#include "analyzer/screen/terminal.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <termios.h>
#include <unistd.h>

#include "analyzer/render/escape.h"

/* A screen beside the one that scrolls, without a cursor; lines that are too long are cut and not folded. */
#define ENTER_SCREEN "\033[?1049h\033[?25l\033[?7l"
#define LEAVE_SCREEN "\033[?7h\033[?25h\033[?1049l"

static struct termios before, raw;
static atomic_bool taken; /* read by the handlers */
static volatile sig_atomic_t asked_to_end;

/* ---- settings -------------------------------------------------------------------------------- */

/* Where the terminal is gone nothing can be done about it. Called by handlers, too. */
static void put(const char *text, size_t length) {
    while (length > 0) {
        ssize_t written = write(STDOUT_FILENO, text, length);
        if (written < 0 && errno == EINTR)
            continue;
        if (written <= 0)
            return;
        text += written;
        length -= (size_t)written;
    }
}

static void take(void) {
    tcsetattr(STDIN_FILENO, TCSAFLUSH, &raw);
    put(ENTER_SCREEN, sizeof ENTER_SCREEN - 1);
    atomic_store(&taken, true);
}

static void give_back(void) {
    if (!atomic_exchange(&taken, false))
        return;
    put(LEAVE_SCREEN, sizeof LEAVE_SCREEN - 1);
    tcsetattr(STDIN_FILENO, TCSADRAIN, &before);
}

/* ---- signals --------------------------------------------------------------------------------- */

static const int ends[] = {SIGINT, SIGTERM, SIGHUP, SIGQUIT};
static const int crashes[] = {SIGSEGV, SIGABRT, SIGFPE, SIGILL}; /* SIGBUS is load/mapping.c's */

static void end_now(int number) {
    give_back();
    signal(number, SIG_DFL);
    raise(number);
}

static void on_end(int number) {
    int error = errno;
    if (asked_to_end)
        end_now(number);
    asked_to_end = number;
    errno = error;
}

/* Stopped by the user (Ctrl-Z): the shell gets its terminal, and we take it again when we go on. */
static void on_stop(int number) {
    int error = errno;
    struct sigaction ours;
    sigset_t stop;
    give_back();
    sigaction(number, &(struct sigaction){.sa_handler = SIG_DFL}, &ours);
    raise(number);
    sigemptyset(&stop);
    sigaddset(&stop, number);
    sigprocmask(SIG_UNBLOCK, &stop, NULL); /* here it stops, and goes on when it is told to */
    sigaction(number, &ours, NULL);
    take();
    errno = error;
}

/* That the size changed is seen when the next frame is drawn: the signal has only to end the wait for a key. */
static void on_resize(int number) {
    (void)number;
}

static void handle(int number, void (*handler)(int)) {
    struct sigaction action = {.sa_handler = handler}, old;
    sigemptyset(&action.sa_mask);
    if (sigaction(number, NULL, &old) == 0 && old.sa_handler != SIG_IGN)
        sigaction(number, &action, NULL);
}

static void handle_all(void) {
    for (size_t i = 0; i < sizeof ends / sizeof *ends; i++)
        handle(ends[i], on_end);
    for (size_t i = 0; i < sizeof crashes / sizeof *crashes; i++)
        handle(crashes[i], end_now);
    handle(SIGTSTP, on_stop);
    handle(SIGWINCH, on_resize);
}

bool terminal_open(void) {
    if (!isatty(STDOUT_FILENO) || tcgetattr(STDIN_FILENO, &before) != 0)
        return false;
    raw = before;
    raw.c_lflag &= ~(tcflag_t)(ICANON | ECHO);
    raw.c_iflag &= ~(tcflag_t)ICRNL;
    raw.c_cc[VMIN] = 0;
    raw.c_cc[VTIME] = 0;
    handle_all();
    take();
    return true;
}

void terminal_close(void) {
    give_back();
}

int terminal_signal(void) {
    return asked_to_end;
}

void terminal_raise(int number) {
    end_now(number);
}

/* ---- keys ------------------------------------------------------------------------------------ */

enum { ESCAPE_MS = 50 }; /* a key's sequence comes in one piece; Escape alone is followed by nothing */

static bool wait_for_input(int timeout_ms) {
    struct pollfd input = {.fd = STDIN_FILENO, .events = POLLIN};
    return poll(&input, 1, timeout_ms) > 0;
}

/* What follows an Escape: "[A", "OA", "[5~". */
static int sequence_key(void) {
    static const struct {
        const char *sequence;
        int key;
    } known[] = {{"[A", KEY_UP},         {"[B", KEY_DOWN}, {"OA", KEY_UP},  {"OB", KEY_DOWN},  {"[5~", KEY_PAGE_UP},
                 {"[6~", KEY_PAGE_DOWN}, {"[H", KEY_HOME}, {"[F", KEY_END}, {"[1~", KEY_HOME}, {"[4~", KEY_END}};
    char text[8] = "";
    size_t length = 0;
    while (length + 1 < sizeof text && wait_for_input(ESCAPE_MS) && read(STDIN_FILENO, &text[length], 1) == 1) {
        length++;
        for (size_t i = 0; i < sizeof known / sizeof *known; i++)
            if (strcmp(text, known[i].sequence) == 0)
                return known[i].key;
        if (length > 1 && text[length - 1] >= '@')
            break;
    }
    return length == 0 ? KEY_ESCAPE : KEY_NONE;
}

int terminal_key(int timeout_ms) {
    unsigned char c;
    if (asked_to_end || !wait_for_input(timeout_ms))
        return KEY_NONE;
    ssize_t got = read(STDIN_FILENO, &c, 1);
    if (got == 0 || (got < 0 && errno != EINTR && errno != EAGAIN))
        return KEY_LOST;
    if (got < 0)
        return KEY_NONE;
    return c == KEY_ESCAPE ? sequence_key() : c == '\n' ? KEY_ENTER : c == '\b' ? KEY_BACKSPACE : c;
}

/* ---- frames ---------------------------------------------------------------------------------- */

void terminal_size(unsigned *rows, unsigned *columns) {
    struct winsize size;
    bool known = ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_row > 0 && size.ws_col > 0;
    *rows = known ? size.ws_row : 24;
    *columns = known ? size.ws_col : 80;
}

static void write_line(FILE *frame, const struct screen_line *line, unsigned columns, bool color) {
    static const char *const styles[] = {"", "\033[7m", "\033[1;31m", "\033[2m"};
    const char *text = line->text;
    unsigned code;
    fputs(color ? styles[line->style] : "", frame);
    for (unsigned used = 0; *text && used < columns; used++) {
        size_t length = utf8_decode(text, &code);
        length = length ? length : 1;
        fwrite(text, 1, length, frame);
        text += length;
    }
    fputs(color && line->style != STYLE_PLAIN ? "\033[0m\033[K" : "\033[K", frame);
}

bool terminal_draw(const struct screen_line *lines, size_t count, bool color) {
    unsigned rows, columns;
    char *text = NULL;
    size_t bytes = 0;
    FILE *frame = open_memstream(&text, &bytes);
    if (!frame)
        return false;
    terminal_size(&rows, &columns);
    fputs("\033[H", frame);
    for (size_t i = 0; i < count && i < rows; i++) {
        write_line(frame, &lines[i], columns, color);
        fputs(i + 1 < rows ? "\r\n" : "", frame);
    }
    fputs("\033[J", frame);
    bool done = fclose(frame) == 0;
    if (done)
        put(text, bytes);
    free(text);
    return done;
}
