// SPDX-License-Identifier: Apache-2.0
//
// Sorting many rows within the time of a key press.
"use strict";

{
    const DIGIT_BITS = 16;
    const DIGITS = 64 / DIGIT_BITS;
    const DIGIT_VALUES = 1 << DIGIT_BITS;

    /* Texts by their place among all texts of the column. */
    const numbersOf = function (texts) {
        const known = Array.from(new Set(texts)).filter((text) => text !== null && text !== undefined).sort();
        const places = new Map(known.map((text, place) => [text, place]));
        return texts.map((text) => (places.has(text) ? places.get(text) : null));
    };

    /* Bits of doubles that compare as their values do, as unsigned numbers: the sign turned round, of negative ones all. */
    const comparable = function (values, known, descending) {
        const doubles = new Float64Array(values.length);
        const words = new Uint32Array(doubles.buffer);
        known.forEach((row) => {
            doubles[row] = values[row] + 0; // no -0
            const high = 2 * row + 1;
            const negative = words[high] >>> 31 === 1;
            if (negative !== descending) {
                words[2 * row] = ~words[2 * row];
            }
            words[high] ^= negative !== descending ? (descending ? 0x7fffffff : 0xffffffff) : descending ? 0 : 0x80000000;
        });
        return words;
    };

    /**
     * The rows of a column of numbers or texts in ascending or descending order; equal ones stay as they were, missing ones
     * are last. A radix sort: its time grows with the rows alone, where a comparing one takes tenths of a second.
     */
    commtap.orderOf = function (column, descending) {
        const values = column.some((value) => typeof value === "string") ? numbersOf(column) : column;
        const has = (row) => values[row] !== null && values[row] !== undefined;
        const rows = Uint32Array.from(values.keys());
        let from = rows.filter(has);
        const words = comparable(values, from, descending);
        let to = new Uint32Array(from.length);
        for (let digit = 0; digit < DIGITS; digit++) {
            const word = digit >> 1;
            const shift = DIGIT_BITS * (digit & 1);
            const valueOf = (row) => (words[2 * row + word] >>> shift) & (DIGIT_VALUES - 1);
            const places = new Uint32Array(DIGIT_VALUES + 1);
            from.forEach((row) => places[valueOf(row) + 1]++);
            if (from.length === 0 || places[valueOf(from[0]) + 1] === from.length) {
                continue; // all alike
            }
            for (let value = 0; value < DIGIT_VALUES; value++) {
                places[value + 1] += places[value];
            }
            from.forEach((row) => (to[places[valueOf(row)]++] = row));
            [from, to] = [to, from];
        }
        return Array.from(from).concat(Array.from(rows.filter((row) => !has(row))));
    };
}
