/* SPDX-License-Identifier: Apache-2.0
 *
 * Python's pickles, as far as they hold data.
 * Lives here: one function for each kind of opcode.
 * Must not live here: what the values mean.
 */
#include "analyzer/import/pickle.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "analyzer/base/grow.h"

/* What jansson takes for an empty container, and for a number or a string beside its bytes, with our own accounts. */
enum { CONTAINER_BYTES = 416, SCALAR_BYTES = 80, KEY_DIGITS = 24 };

/* On the stack, or remembered. */
struct value {
    json_t *json;       /* a reference of its own; NULL: a mark, or nothing is remembered there */
    uint32_t container; /* index + 1; 0: a number, a string, ... */
};

struct container {
    uint64_t values; /* in it, and in what it holds */
    uint16_t height; /* of what it holds */
    bool closed;     /* it is part of another one, or may become so twice: from then on it stays as it is */
};

struct machine {
    struct import_source *source;
    struct import_limits *limits;
    struct json_error *error;
    struct value *stack, *memo;
    size_t depth, stack_room, memo_count, memo_room;
    struct container *containers;
    size_t container_count, container_room;
    uint64_t at; /* offset of the present opcode */
    bool stopped;
};

__attribute__((format(printf, 2, 3))) static bool fail(struct machine *machine, const char *format, ...) {
    va_list arguments;
    const char *reason = source_error(machine->source);
    machine->error->offset = machine->at;
    va_start(arguments, format);
    vsnprintf(machine->error->text, sizeof machine->error->text, format, arguments);
    va_end(arguments);
    if (reason)
        snprintf(machine->error->text, sizeof machine->error->text, "%s", reason);
    return false;
}

static bool no_memory(struct machine *machine) {
    return fail(machine, "no memory");
}

/* ---- operands -------------------------------------------------------------------------------- */

/* A little-endian number of `bytes` bytes, at most 8. */
static bool read_number(struct machine *machine, unsigned bytes, uint64_t *number) {
    *number = 0;
    for (unsigned i = 0; i < bytes; i++) {
        int byte = source_byte(machine->source);
        if (byte < 0)
            return fail(machine, "the pickle ends too early");
        *number |= (uint64_t)byte << 8 * i;
    }
    return true;
}

/* Two's complement in `bytes` bytes. */
static int64_t with_sign(uint64_t number, unsigned bytes) {
    if (bytes == 0 || bytes >= sizeof number)
        return (int64_t)number;
    uint64_t sign = UINT64_C(1) << (8 * bytes - 1);
    return (int64_t)((number ^ sign) - sign);
}

/* ---- the stack ------------------------------------------------------------------------------- */

/* Takes the reference. */
static bool push(struct machine *machine, json_t *json, uint32_t container) {
    if (!json || !grow_by_one(machine->stack, machine->depth, machine->stack_room)) {
        json_decref(json);
        return no_memory(machine);
    }
    machine->stack[machine->depth++] = (struct value){json, container};
    return true;
}

static bool push_scalar(struct machine *machine, json_t *json, uint64_t bytes) {
    if (limits_keep(machine->limits, SCALAR_BYTES + bytes))
        return push(machine, json, 0);
    json_decref(json);
    return no_memory(machine);
}

static bool push_container(struct machine *machine, json_t *json) {
    if (!limits_keep(machine->limits, CONTAINER_BYTES) || machine->container_count == UINT32_MAX - 1 ||
        !grow_by_one(machine->containers, machine->container_count, machine->container_room)) {
        json_decref(json);
        return no_memory(machine);
    }
    machine->containers[machine->container_count++] = (struct container){0};
    return push(machine, json, (uint32_t)machine->container_count);
}

static bool push_mark(struct machine *machine) {
    if (!grow_by_one(machine->stack, machine->depth, machine->stack_room))
        return no_memory(machine);
    machine->stack[machine->depth++] = (struct value){0};
    return true;
}

/* Index of the first value above the newest mark. */
static bool find_mark(struct machine *machine, size_t *first) {
    for (size_t i = machine->depth; i-- > 0;)
        if (!machine->stack[i].json) {
            *first = i + 1;
            return true;
        }
    return fail(machine, "no mark is there");
}

/* Whether `index` is a container of that type that nothing holds yet. */
static bool may_add_to(struct machine *machine, size_t index, json_type type) {
    const struct value *value = &machine->stack[index];
    if (index >= machine->depth || !value->json || json_typeof(value->json) != type)
        return fail(machine, "there is no %s to add to", type == JSON_OBJECT ? "dictionary" : "list");
    return !machine->containers[value->container - 1].closed ||
           fail(machine, "a value is changed that is part of others");
}

/* `inner` becomes part of `outer`. */
static bool enclose(struct machine *machine, const struct value *outer, const struct value *inner) {
    struct container *holder = &machine->containers[outer->container - 1];
    holder->values++;
    if (inner->container == 0)
        return true;
    struct container *held = &machine->containers[inner->container - 1];
    held->closed = true;
    holder->values += held->values;
    if (held->height + 1 > LIMIT_DEPTH)
        return fail(machine, "values are nested more than %d deep", LIMIT_DEPTH);
    if (held->height + 1 > holder->height)
        holder->height = (uint16_t)(held->height + 1);
    return true;
}

static void drop_above(struct machine *machine, size_t depth) {
    while (machine->depth > depth)
        json_decref(machine->stack[--machine->depth].json);
}

/* ---- containers ------------------------------------------------------------------------------ */

/* The values from `first` on go into the list below them, or below the mark that is before them. */
static bool append_from(struct machine *machine, size_t list, size_t first) {
    if (!may_add_to(machine, list, JSON_ARRAY))
        return false;
    for (size_t i = first; i < machine->depth; i++) {
        if (!machine->stack[i].json)
            return fail(machine, "a mark is no value");
        if (!enclose(machine, &machine->stack[list], &machine->stack[i]))
            return false;
        if (json_array_append(machine->stack[list].json, machine->stack[i].json) != 0)
            return no_memory(machine);
    }
    drop_above(machine, list + 1);
    return true;
}

/* Keys of JSON are strings: numbers become their digits. */
static bool set_item(struct machine *machine, const struct value *map, const struct value *key,
                     const struct value *value) {
    char digits[KEY_DIGITS];
    const char *text = key->json ? json_string_value(key->json) : NULL;
    if (!text && json_is_integer(key->json)) {
        snprintf(digits, sizeof digits, "%" JSON_INTEGER_FORMAT, json_integer_value(key->json));
        text = digits;
    }
    if (!text || !value->json)
        return fail(machine, "a key is neither a string nor a whole number");
    if (!enclose(machine, map, value))
        return false;
    if (!limits_keep(machine->limits, SCALAR_BYTES + strlen(text)) ||
        json_object_set(map->json, text, value->json) != 0)
        return no_memory(machine);
    return true;
}

static bool set_items_from(struct machine *machine, size_t map, size_t first) {
    if (!may_add_to(machine, map, JSON_OBJECT))
        return false;
    if ((machine->depth - first) % 2 != 0)
        return fail(machine, "a key without a value");
    for (size_t i = first; i < machine->depth; i += 2)
        if (!set_item(machine, &machine->stack[map], &machine->stack[i], &machine->stack[i + 1]))
            return false;
    drop_above(machine, map + 1);
    return true;
}

/* The newest `count` values become one. */
static bool make_tuple(struct machine *machine, size_t first) {
    size_t count = machine->depth - first;
    if (!push_container(machine, json_array()))
        return false;
    struct value tuple = machine->stack[--machine->depth];
    for (size_t i = first; i < first + count; i++) {
        bool done =
            machine->stack[i].json ? enclose(machine, &tuple, &machine->stack[i]) : fail(machine, "a mark is no value");
        if (done && json_array_append(tuple.json, machine->stack[i].json) != 0)
            done = no_memory(machine);
        if (!done) {
            json_decref(tuple.json);
            return false;
        }
    }
    drop_above(machine, first);
    return push(machine, tuple.json, tuple.container);
}

static bool make_tuple_of(struct machine *machine, size_t count) {
    return machine->depth < count ? fail(machine, "a tuple of %zu has fewer values", count)
                                  : make_tuple(machine, machine->depth - count);
}

/* ---- what is remembered ---------------------------------------------------------------------- */

static bool remember(struct machine *machine, uint64_t index) {
    if (machine->depth == 0 || !machine->stack[machine->depth - 1].json)
        return fail(machine, "there is nothing to remember");
    if (index > machine->memo_count) /* writers count up */
        return fail(machine, "number %" PRIu64 " is remembered before %zu", index, machine->memo_count);
    if (index == machine->memo_count) {
        if (!limits_keep(machine->limits, sizeof *machine->memo) ||
            !grow_by_one(machine->memo, machine->memo_count, machine->memo_room))
            return no_memory(machine);
        machine->memo[machine->memo_count++] = (struct value){0};
    }
    struct value *place = &machine->memo[index];
    json_decref(place->json);
    *place = machine->stack[machine->depth - 1];
    json_incref(place->json);
    return true;
}

/* What is held several times will be read as often, and counts as if it were there as often. Nothing is added to it any
 * more: so no value ever comes to hold itself. */
static bool recall(struct machine *machine, uint64_t index) {
    if (index >= machine->memo_count)
        return fail(machine, "number %" PRIu64 " was never remembered", index);
    const struct value *value = &machine->memo[index];
    if (value->container > 0) {
        struct container *container = &machine->containers[value->container - 1];
        container->closed = true;
        if (container->values > LIMIT_VALUE_BYTES ||
            !limits_keep(machine->limits, CONTAINER_BYTES + container->values * SCALAR_BYTES))
            return no_memory(machine);
    }
    return push(machine, json_incref(value->json), value->container);
}

/* ---- numbers and strings --------------------------------------------------------------------- */

static bool push_text(struct machine *machine, unsigned length_bytes) {
    uint64_t length;
    if (!read_number(machine, length_bytes, &length))
        return false;
    if (length > LIMIT_VALUE_BYTES)
        return fail(machine, "one value is larger than 16 MB");
    char *text = limits_keep(machine->limits, length) ? malloc(length + 1) : NULL;
    if (!text)
        return no_memory(machine);
    for (uint64_t i = 0; i < length; i++) {
        int byte = source_byte(machine->source);
        if (byte < 0) {
            free(text);
            return fail(machine, "the pickle ends too early");
        }
        text[i] = (char)byte;
    }
    json_t *string = json_stringn(text, length);
    free(text);
    return string ? push_scalar(machine, string, length) : fail(machine, "a string is not UTF-8");
}

static bool push_integer(struct machine *machine, unsigned bytes, bool is_signed) {
    uint64_t number;
    return read_number(machine, bytes, &number) &&
           push_scalar(machine, json_integer(is_signed ? with_sign(number, bytes) : (int64_t)number), 0);
}

static bool push_long(struct machine *machine, unsigned length_bytes) {
    uint64_t length;
    if (!read_number(machine, length_bytes, &length))
        return false;
    return length <= sizeof(int64_t) ? push_integer(machine, (unsigned)length, true)
                                     : fail(machine, "a number of more than 64 bits");
}

/* Big-endian, as the only one. JSON has no infinities: they are null. */
static bool push_real(struct machine *machine) {
    uint64_t bits;
    double real;
    if (!read_number(machine, sizeof bits, &bits))
        return false;
    bits = __builtin_bswap64(bits);
    memcpy(&real, &bits, sizeof real);
    return push_scalar(machine, isfinite(real) ? json_real(real) : json_null(), 0);
}

/* ---- opcodes --------------------------------------------------------------------------------- */

static const char *name_of_refused(int opcode) {
    static const struct {
        unsigned char opcode;
        char name[16];
    } refused[] = {{'c', "GLOBAL"}, {0x93, "STACK_GLOBAL"}, {'R', "REDUCE"},  {'b', "BUILD"},
                   {'i', "INST"},   {'o', "OBJ"},           {0x81, "NEWOBJ"}, {0x92, "NEWOBJ_EX"},
                   {'P', "PERSID"}, {'Q', "BINPERSID"},     {0x82, "EXT1"},   {0x83, "EXT2"},
                   {0x84, "EXT4"},  {0x97, "NEXT_BUFFER"}};
    for (size_t i = 0; i < sizeof refused / sizeof *refused; i++)
        if (refused[i].opcode == opcode)
            return refused[i].name;
    return NULL;
}

static bool refuse(struct machine *machine, int opcode) {
    const char *name = name_of_refused(opcode);
    if (opcode < 0)
        return fail(machine, "the pickle ends too early");
    return name ? fail(machine, "%s: the pickle holds more than data, and is not run", name)
                : fail(machine, "opcode 0x%02x is none that data needs", (unsigned)opcode);
}

static bool take_container(struct machine *machine, int opcode) {
    size_t first = 0;
    switch (opcode) {
    case '(':
        return push_mark(machine);
    case ']':
    case ')':
        return push_container(machine, json_array());
    case '}':
        return push_container(machine, json_object());
    case 'a':
        return machine->depth >= 2 ? append_from(machine, machine->depth - 2, machine->depth - 1)
                                   : fail(machine, "there is no list to add to");
    case 's':
        return machine->depth >= 3 ? set_items_from(machine, machine->depth - 3, machine->depth - 2)
                                   : fail(machine, "there is no dictionary to add to");
    case 'e':
        return find_mark(machine, &first) && (first >= 2 || fail(machine, "there is no list to add to")) &&
               append_from(machine, first - 2, first);
    case 'u':
        return find_mark(machine, &first) && (first >= 2 || fail(machine, "there is no dictionary to add to")) &&
               set_items_from(machine, first - 2, first);
    case 't':
        if (!find_mark(machine, &first) || !make_tuple(machine, first))
            return false;
        machine->stack[first - 1] = machine->stack[first]; /* in place of the mark */
        machine->depth--;
        return true;
    default: /* TUPLE1 to TUPLE3 */
        return make_tuple_of(machine, (size_t)(opcode - 0x84));
    }
}

static bool take_memo(struct machine *machine, int opcode) {
    uint64_t index = machine->memo_count;
    unsigned bytes = opcode == 'q' || opcode == 'h' ? 1 : opcode == 'r' || opcode == 'j' ? 4 : 0;
    if (!read_number(machine, bytes, bytes > 0 ? &index : &(uint64_t){0}))
        return false;
    return opcode == 'h' || opcode == 'j' ? recall(machine, index) : remember(machine, index);
}

static bool take_scalar(struct machine *machine, int opcode) {
    switch (opcode) {
    case 'N':
        return push_scalar(machine, json_null(), 0);
    case 0x88:
    case 0x89:
        return push_scalar(machine, json_boolean(opcode == 0x88), 0);
    case 'J':
        return push_integer(machine, 4, true);
    case 'K':
        return push_integer(machine, 1, false);
    case 'M':
        return push_integer(machine, 2, false);
    case 'G':
        return push_real(machine);
    default: /* LONG1, LONG4 */
        return push_long(machine, opcode == 0x8a ? 1 : 4);
    }
}

/* How many bytes give the length of the string or bytes that the opcode holds; 0: it holds none. */
static unsigned text_length_bytes(int opcode) {
    switch (opcode) {
    case 0x8c: /* SHORT_BINUNICODE */
    case 'U':
    case 'C':
        return 1;
    case 'X':
    case 'T':
    case 'B':
        return 4;
    case 0x8d: /* BINUNICODE8 */
    case 0x8e: /* BINBYTES8 */
        return 8;
    default:
        return 0;
    }
}

static bool take_opcode(struct machine *machine, int opcode) {
    uint64_t ignored;
    if (opcode == 0x80 || opcode == 0x95) /* PROTO and FRAME say nothing that is needed */
        return read_number(machine, opcode == 0x80 ? 1 : 8, &ignored);
    if (text_length_bytes(opcode) > 0)
        return push_text(machine, text_length_bytes(opcode));
    if (opcode > 0 && strchr("(])}aseut\x85\x86\x87", opcode))
        return take_container(machine, opcode);
    if (opcode > 0 && strchr("qrhj\x94", opcode))
        return take_memo(machine, opcode);
    if (opcode > 0 && strchr("N\x88\x89JKMG\x8a\x8b", opcode))
        return take_scalar(machine, opcode);
    if (opcode == '.') {
        machine->stopped = true;
        return machine->depth == 1 && machine->stack[0].json ? true : fail(machine, "the pickle ends without a value");
    }
    return refuse(machine, opcode);
}

/* ---- the whole ------------------------------------------------------------------------------- */

static bool hand_out(json_t *value, const char *key, json_piece take, void *context) {
    size_t i;
    json_t *element;
    if (!json_is_array(value))
        return take(context, key, value);
    json_array_foreach(value, i, element) {
        if (!take(context, key, element))
            return false;
    }
    return true;
}

static bool hand_out_all(json_t *whole, json_piece take, void *context) {
    const char *key;
    json_t *value;
    if (json_is_array(whole))
        return hand_out(whole, NULL, take, context);
    json_object_foreach(whole, key, value) {
        if (!hand_out(value, key, take, context))
            return false;
    }
    return true;
}

static bool read_pickle(struct machine *machine) {
    while (!machine->stopped) {
        machine->at = source_offset(machine->source);
        if (!take_opcode(machine, source_byte(machine->source)))
            return false;
    }
    machine->at = source_offset(machine->source);
    if (source_byte(machine->source) >= 0 || source_error(machine->source))
        return fail(machine, "something follows the pickle");
    machine->at = 0;
    return json_is_array(machine->stack[0].json) || json_is_object(machine->stack[0].json) ||
           fail(machine, "the pickle holds neither a list nor a dictionary");
}

bool pickle_walk(struct import_source *source, struct import_limits *limits, json_piece take, void *context,
                 struct json_error *error) {
    struct machine machine = {.source = source, .limits = limits, .error = error};
    bool done = read_pickle(&machine);
    if (done && !hand_out_all(machine.stack[0].json, take, context))
        done = no_memory(&machine);
    drop_above(&machine, 0);
    for (size_t i = 0; i < machine.memo_count; i++)
        json_decref(machine.memo[i].json);
    free(machine.stack);
    free(machine.memo);
    free(machine.containers);
    return done;
}
