/* SPDX-License-Identifier: Apache-2.0
 *
 * Compact names of call sites.
 * Lives here: a hash table of stacks, and one of texts.
 * Must not live here: what a frame is called.
 */
#include "analyzer/symbols/site_labels.h"

#include <stdlib.h>
#include <string.h>

enum { LABEL = 512, CHAINS = 4096 };

struct text {
    struct text *next;
    char text[];
};

struct stack_label {
    struct stack_label *next;
    size_t dump;
    uint32_t stack;
    const char *text, *caller;
};

struct site_labels {
    struct symbols *symbols;
    const struct skip_list *skip;
    struct frames frames;
    struct text *texts[CHAINS];
    struct stack_label *stacks[CHAINS];
};

struct site_labels *site_labels_new(struct symbols *symbols, const struct skip_list *skip) {
    struct site_labels *labels = calloc(1, sizeof *labels);
    if (labels) {
        labels->symbols = symbols;
        labels->skip = skip;
    }
    return labels;
}

void site_labels_free(struct site_labels *labels) {
    for (size_t i = 0; labels && i < CHAINS; i++) {
        for (struct text *text = labels->texts[i], *next; text; text = next) {
            next = text->next;
            free(text);
        }
        for (struct stack_label *stack = labels->stacks[i], *next; stack; stack = next) {
            next = stack->next;
            free(stack);
        }
    }
    if (labels)
        frames_free(&labels->frames);
    free(labels);
}

static const char *intern(struct site_labels *labels, const char *text) {
    uint32_t hash = 2166136261u;
    for (const char *p = text; *p; p++)
        hash = (hash ^ (uint8_t)*p) * 16777619u;
    struct text **chain = &labels->texts[hash % CHAINS];
    for (struct text *known = *chain; known; known = known->next)
        if (strcmp(known->text, text) == 0)
            return known->text;
    struct text *known = malloc(sizeof *known + strlen(text) + 1);
    if (!known)
        return NULL;
    strcpy(known->text, text);
    known->next = *chain;
    *chain = known;
    return known->text;
}

/* NULL when memory is short. */
static const struct stack_label *label_of(struct site_labels *labels, size_t dump, uint32_t stack) {
    char text[LABEL];
    struct stack_label **chain = &labels->stacks[(dump * 2654435761u + stack) % CHAINS];
    for (const struct stack_label *known = *chain; known; known = known->next)
        if (known->dump == dump && known->stack == stack)
            return known;
    if (!symbols_want(labels->symbols, dump, stack) || !symbols_resolve(labels->symbols) ||
        !frames_of(&labels->frames, labels->symbols, labels->skip, dump, stack))
        return NULL;
    const struct frame *nearest = frames_nearest(&labels->frames);
    frame_label(nearest, text, sizeof text);
    struct stack_label *label = malloc(sizeof *label);
    const char *kept = label ? intern(labels, text) : NULL;
    const char *caller = kept ? intern(labels, nearest ? nearest->name : text) : NULL;
    if (!caller) {
        free(label);
        return NULL;
    }
    *label = (struct stack_label){*chain, dump, stack, kept, caller};
    *chain = label;
    return label;
}

const char *site_label(struct site_labels *labels, size_t dump, uint32_t stack) {
    const struct stack_label *label = label_of(labels, dump, stack);
    return label ? label->text : NULL;
}

const char *site_caller(struct site_labels *labels, size_t dump, uint32_t stack) {
    const struct stack_label *label = label_of(labels, dump, stack);
    return label ? label->caller : NULL;
}
