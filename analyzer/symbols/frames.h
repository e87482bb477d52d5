/* SPDX-License-Identifier: Apache-2.0
 *
 * A stack as a person reads it: NVTX ranges, Python frames in the place of the interpreter's, native frames.
 * Lives here: splicing the three lists of a stack definition into one, which frames are plumbing, what kind of pass it
 * was taken in, the compact label.
 * Must not live here: reading files, trees.
 *
 * How the lists fit together: every native frame of the interpreter's loop stands for the Python frames up to and
 * including the next one marked as the first of its loop. Around them the interpreter's own functions (all frames of
 * the file that holds the loop) are plumbing of the splice and are left out. NVTX ranges are outermost: when they were
 * opened between frames is not known.
 */
#ifndef COMMTAP_SYMBOLS_FRAMES_H
#define COMMTAP_SYMBOLS_FRAMES_H

#include "analyzer/symbols/skip_list.h"
#include "analyzer/symbols/symbols.h"

enum frame_kind { FRAME_ROOT = 0, FRAME_NATIVE, FRAME_PYTHON, FRAME_NVTX };

struct frame {
    enum frame_kind kind;
    bool plumbing;      /* by the skip list */
    bool named;         /* `name` is a function's, or a range's */
    const char *name;   /* strings live as long as the dump or the symbols do */
    const char *module; /* native: last part of the path; else "" */
    const char *file;   /* NULL = unknown */
    uint32_t line;      /* the line that makes the call, 0 = unknown */
};

/* In which pass of a training step a stack was taken. All but PASS_NONE are inferred from its frames: Engine frames of
 * torch.autograd mean backward, these under torch/utils/checkpoint.py a recomputation; else what the innermost range
 * says whose text has forward, backward (fwd, bwd) or recompute as a word; other torch frames mean forward. */
enum pass { PASS_NONE = 0, PASS_FORWARD, PASS_BACKWARD, PASS_CHECKPOINT, PASSES };

const char *pass_name(enum pass pass); /* "forward", "backward", "checkpointing"; PASS_NONE: NULL */

/* Stacks are walked by recursion and written as nested JSON: longer ones lose their outermost frames. */
enum { FRAMES_MAX = 400 };

struct frames {
    struct frame *items; /* outermost first */
    size_t count, room;
    enum pass pass;
    bool has_python; /* at least one Python frame or range: it says by itself where in the program it is */
};

/* Frames of a stack of dump number `dump`; commtap's own are left out, a place where frames are missing is one called
 * "[missing frames]". No stack, or an unknown one: no frames. `frames` starts zeroed and can be used again. Returns
 * false when memory is short; the caller frees with frames_free. */
bool frames_of(struct frames *frames, const struct symbols *symbols, const struct skip_list *skip, size_t dump,
               uint32_t stack);
void frames_free(struct frames *frames);

/* The frame that stands for the whole stack: the innermost that is no plumbing, else the innermost whose function is
 * known, else the innermost; NULL without frames. */
const struct frame *frames_nearest(const struct frames *frames);

/* One line for a frame: "function (file.py:42)", "function (program)", "program+0x1a2b"; "(no call stack)" for NULL.
 * Cut to `size`. */
void frame_label(const struct frame *frame, char *text, size_t size);

#endif
