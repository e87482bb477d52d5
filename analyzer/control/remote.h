/* SPDX-License-Identifier: Apache-2.0
 *
 * Orders to processes whose dumps lie on other hosts: the `commtap` of each host gives them there, over the user's own
 * ssh.
 * Lives here: what is asked of a host, reading what it answers. Must not live here: which processes are meant, words
 * beyond reasons.
 */
#ifndef COMMTAP_CONTROL_REMOTE_H
#define COMMTAP_CONTROL_REMOTE_H

#include "analyzer/control/control.h"

enum { REMOTE_DOING = 112, REMOTE_REFUSED = 160 }; /* bytes of a text, with its end */

/* A process whose dump lies elsewhere. */
struct remote_process {
    struct controlled *process; /* as control_open_stub left it; when its host has answered, what that says */
    const struct dump_stub *stub;
    bool answered;
    /* what its host says besides, "" where nothing: */
    char doing[REMOTE_DOING];
    char refused[REMOTE_REFUSED];
    int64_t since_ns; /* -1 unknown */
};

struct remote_order {
    const char *ssh;      /* a shell's words, before the host */
    const char *word;     /* of the order, NULL: what is in force is asked for */
    const char *text;     /* behind the word, NULL: nothing */
    const char *wait;     /* seconds, as digits */
    const char *ranks;    /* as --rank has them, NULL: all */
    unsigned patience_ms; /* how long a host may be silent */
    unsigned at_once;     /* hosts */
};

/* Gives the order to all of them, each host being asked once. Of a process whose host does not answer, or not about it,
 * `trouble` says why; it is ORDER_NOT_GIVEN. False when memory is short: nobody was asked. */
bool control_give_there(struct remote_process *processes, size_t count, const struct remote_order *order);

#endif
